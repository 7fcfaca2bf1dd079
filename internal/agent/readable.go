package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Readable turns the event lines that a preset's agent writes into what a person wants to follow: what the
// agent says, and which commands and tools it uses. Lines that are no such event pass unchanged, and agents
// without a preset are not touched. It is for a screen only; `sallyport logs` has every byte. What comes out is
// as hostile as what went in.
func Readable(name string, w io.Writer) io.Writer {
	if !slices.Contains(Names(), name) {
		return w
	}
	return &readable{w: w}
}

// maxEvent bounds a line that is kept to be understood; a longer one passes unchanged.
const maxEvent = 1 << 20

type readable struct {
	w       io.Writer
	line    []byte
	passing bool // the rest of an overlong line
}

// Write takes whatever part of the stream there is; a line is understood once it is whole.
func (r *readable) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		p = rest
		r.line = append(r.line, part...)
		if !whole {
			if len(r.line) <= maxEvent {
				return n, nil
			}
			r.passing = true
			return n, r.flush(nil)
		}
		err := r.flush([]byte{'\n'})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Flush lets out a last line that has no end.
func (r *readable) Flush() error {
	if len(r.line) == 0 {
		return nil
	}
	_, err := r.w.Write(r.line)
	r.line = r.line[:0]
	return err
}

func (r *readable) flush(end []byte) error {
	line, passing := r.line, r.passing
	r.line = r.line[:0]
	r.passing = end == nil
	if !passing && end != nil {
		if text, ok := eventText(line); ok {
			if text == "" {
				return nil
			}
			_, err := fmt.Fprintln(r.w, text)
			return err
		}
	}
	_, err := r.w.Write(append(line, end...))
	return err
}

// event is what Claude Code (--output-format stream-json) and Codex (exec --json) write, as far as it is shown.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Item struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Command string `json:"command"`
	} `json:"item"`
	Error json.RawMessage `json:"error"`
}

type content struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Name  string `json:"name"`
	Input struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	} `json:"input"`
}

// eventText is what of an event a person sees; false: the line is no event.
func eventText(line []byte) (string, bool) {
	var e event
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Type == "" {
		return "", false
	}
	switch {
	case e.Type == "assistant":
		return contentText(e.Message.Content), true
	case e.Type == "item.completed" && e.Item.Type == "agent_message":
		return e.Item.Text, true
	case e.Type == "item.started" && e.Item.Type == "command_execution":
		return "$ " + e.Item.Command, true
	case e.Type == "error" || e.Type == "turn.failed":
		return string(line), true // the agent's own trouble is worth every byte
	}
	return "", true
}

func contentText(raw json.RawMessage) string {
	var parts []content
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b bytes.Buffer
	for _, c := range parts {
		switch {
		case c.Type == "text" && c.Text != "":
			fmt.Fprintln(&b, c.Text)
		case c.Type == "tool_use" && c.Input.Command != "":
			fmt.Fprintln(&b, "$", c.Input.Command)
		case c.Type == "tool_use":
			fmt.Fprintln(&b, "["+c.Name+"]", c.Input.Path)
		}
	}
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}
