package agent

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	claudeLines = `{"type":"system","subtype":"init","tools":["Bash"]}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look first."},{"type":"tool_use","name":"Bash","input":{"command":"ls -la"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","content":"a\nb"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":{"file_path":"/w/a.go"}}]}}
plain words
{"type":"result","result":"done"}
`
	codexLines = `{"type":"thread.started","thread_id":"x"}
{"type":"item.started","item":{"type":"command_execution","command":"go test ./..."}}
{"type":"item.completed","item":{"type":"command_execution","command":"go test ./...","exit_code":0}}
{"type":"item.completed","item":{"type":"agent_message","text":"It works."}}
{"type":"turn.failed","error":{"message":"quota"}}
{not json
`
)

func TestReadable(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"claude-code": {claudeLines, "I look first.\n$ ls -la\n[Edit] /w/a.go\nplain words\n"},
		"codex":       {codexLines, "$ go test ./...\nIt works.\n{\"type\":\"turn.failed\",\"error\":{\"message\":\"quota\"}}\n{not json\n"},
		"no preset":   {claudeLines, claudeLines},
	} {
		t.Run(name, func(t *testing.T) {
			// However the stream is cut, the same comes out.
			rapid.Check(t, func(t *rapid.T) {
				var out bytes.Buffer
				w := Readable(name, &out)
				for rest := c.in; rest != ""; {
					n := rapid.IntRange(1, len(rest)).Draw(t, "n")
					if _, err := w.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if out.String() != c.want {
					t.Fatalf("got %q, want %q", out.String(), c.want)
				}
			})
		})
	}
}

// A line without an end is not kept for ever.
func TestReadableIsBounded(t *testing.T) {
	var out bytes.Buffer
	w := Readable("codex", &out)
	long := strings.Repeat("x", maxEvent/2)
	for range 8 {
		if _, err := w.Write([]byte(long)); err != nil {
			t.Fatal(err)
		}
	}
	if kept := len(w.(*readable).line); kept > maxEvent+len(long) {
		t.Errorf("%d bytes are kept", kept)
	}
	_, _ = w.Write([]byte("\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"after\"}}\n"))
	if !strings.HasSuffix(out.String(), "x\nafter\n") || strings.Count(out.String(), "x") != 8*len(long) {
		t.Errorf("%d bytes came out, ending in %q", out.Len(), out.String()[max(out.Len()-20, 0):])
	}
}
