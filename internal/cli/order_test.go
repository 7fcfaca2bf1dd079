package cli

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

func ptr[T any](v T) *T { return &v }

// submitted runs a command line up to Submit and returns what arrived there.
func submitted(t *testing.T, w *world, args ...string) *Request {
	t.Helper()
	var got *Request
	w.control.submit = func(_ context.Context, r Request) (sallyport.AttemptID, error) {
		got = &r
		return "", &sallyport.Error{Code: sallyport.CodeDenied, Message: "far enough"}
	}
	w.run(args...)
	return got
}

func TestFlagsSayOnlyWhatWasSaid(t *testing.T) {
	for _, c := range []struct {
		args string
		want sallyport.WorkOrder
	}{
		{"", sallyport.WorkOrder{}},
		{"-m|fix it", sallyport.WorkOrder{Task: "fix it"}},
		{"--message=two\nlines", sallyport.WorkOrder{Task: "two\nlines"}},
		{"--agent|codex", sallyport.WorkOrder{Agent: "codex"}},
		{"--|go|test|-v|--|x", sallyport.WorkOrder{Command: []string{"go", "test", "-v", "--", "x"}}},
		{"--name|fix-1|--base|v1.2|--include-dirty", sallyport.WorkOrder{Name: "fix-1", Base: "v1.2", IncludeDirty: true}},
		{"-it|--|bash", sallyport.WorkOrder{Terminal: true, Command: []string{"bash"}}},
		{"-i|-t|--|bash", sallyport.WorkOrder{Terminal: true, Command: []string{"bash"}}},
		{"--attempts|3|--history|50", sallyport.WorkOrder{Attempts: 3, History: "50"}},
		{"--history|full", sallyport.WorkOrder{History: "full"}},
		{"--time|1h30m|--memory|8GiB|--pids|100|--disk|1TiB|--output|256MiB|--cpus|0.5", sallyport.WorkOrder{Limits: sallyport.LimitsProposal{
			Time: ptr(90 * time.Minute), Memory: ptr(int64(8 << 30)), PIDs: ptr(int64(100)), Disk: ptr(int64(1 << 40)), Output: ptr(int64(256 << 20)), CPU: ptr(0.5)}}},
		{"--cpus|2", sallyport.WorkOrder{Limits: sallyport.LimitsProposal{CPU: ptr(2.0)}}},
		{"--spend|usd=2.50,tokens=500k", sallyport.WorkOrder{Limits: sallyport.LimitsProposal{SpendMicroUSD: ptr(int64(2_500_000)), SpendTokens: ptr(int64(500_000))}}},
		{"--spend|on-exceeded=refuse", sallyport.WorkOrder{Limits: sallyport.LimitsProposal{SpendOnExceeded: ptr("refuse")}}},
		{"--allow=", sallyport.WorkOrder{Scope: &sallyport.Scope{Allow: &[]string{}}}},
		{"--allow|a/**|--allow|{b,c}/**", sallyport.WorkOrder{Scope: &sallyport.Scope{Allow: &[]string{"a/**", "{b,c}/**"}}}},
		{"--deny|x", sallyport.WorkOrder{Scope: &sallyport.Scope{Deny: []string{"x"}}}},
		{"--deny=", sallyport.WorkOrder{Scope: &sallyport.Scope{Deny: []string{}}}},
		{"--require|all", sallyport.WorkOrder{Require: []string{"all"}}},
		{"--require|memory,pids|--require|disk", sallyport.WorkOrder{Require: []string{"memory", "pids", "disk"}}},
		{"--require=", sallyport.WorkOrder{Require: []string{}}},
		{"--publish|none", sallyport.WorkOrder{Publish: &sallyport.Publish{To: "none"}}},
		{"--egress=", sallyport.WorkOrder{Egress: &[]sallyport.EgressRule{}}},
		{`--egress|{host: a.example, methods: ["*"], own-auth: true}|--egress|{host: b.example, protocol: tcp, port: 22}`, sallyport.WorkOrder{Reach: []sallyport.EgressRule{
			{Host: "a.example", Port: 443, Protocol: "https", Methods: []string{"*"}, Paths: []string{"/**"}, OwnAuth: true}, {Host: "b.example", Port: 22, Protocol: "tcp"}}}},
		{"--approve|always", sallyport.WorkOrder{Publish: &sallyport.Publish{Approve: "always"}}},
	} {
		w := newWorld(t)
		if strings.Contains(c.args, "-it") || strings.Contains(c.args, "-i|") {
			w.env.Console = newConsole()
		}
		args := []string{"run"}
		if c.args != "" {
			args = append(args, strings.Split(c.args, "|")...)
		}
		r := submitted(t, w, args...)
		if r == nil {
			t.Errorf("%s: nothing was submitted\n%s", c.args, w.err)
			continue
		}
		// DeepEqual tells nil from empty, which is the point.
		if !reflect.DeepEqual(r.Flags, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.args, r.Flags, c.want)
		}
		if r.File != nil || r.Dir != w.env.Dir {
			t.Errorf("%s: file %v, dir %q", c.args, r.File, r.Dir)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"-m|", "--message"},
		{"--name=", "--name"},
		{"--time|45", "--time: expected a duration"},
		{"--time|forever", "--time"},
		{"--memory|8G", "--memory: expected a size"},
		{"--memory|8GiB, time: 1h", "--memory"},
		{"--memory|\x1b]52;c;x\x07", "--memory"},
		{"--pids|0", "--pids"},
		{"--pids|-1", "--pids"},
		{"--cpus|many", "--cpus"},
		{"--attempts|0", "--attempts"},
		{"--attempts|99", "--attempts"},
		{"--history|some", "--history"},
		{"--", "expected a command after --"},
		{"--agent|codex|--|bash", "expected one of them"},
		{"-t|--|bash", "-it"},
		{"-i|--|bash", "-it"},
		{"go|test", "behind --"},
		{"fix it|--|bash", "behind --"},
		{"--allow|a|--allow=", "--allow"},
		{"--mesage|x", "--message"},
		{"--timeout|1h", "unknown flag"},
		{"-it|--|bash", "terminal"},
		{"-f|missing.yaml", "missing.yaml"},
		{"--egress|https://a.example/", "--egress: \"https://a.example/\" looks like a URL"},
		{"--egress|{host: a.example, prot: 1}", `--egress: unknown key "prot"`},
		{"--egress|{host: a.example}\ntask: x", "--egress"},
		{"--egress|{host: a.example, protocol: http}|--egress=", "--egress"},
		{"--egress|nosuch", "is no preset"},
	} {
		w := newWorld(t).stateless()
		w.want(ExitInvalid, append([]string{"run"}, strings.Split(c.args, "|")...)...)
		if !strings.Contains(w.err.String(), c.says) || !strings.HasPrefix(w.err.String(), "sallyport: ") {
			t.Errorf("%s: stderr does not say %q:\n%s", c.args, c.says, w.err)
		}
		if w.out.String() != "" {
			t.Errorf("%s: stdout %q", c.args, w.out)
		}
		visibleOnly(t, c.args, w.err.String())
	}
}

func TestWorkOrderFile(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.env.Dir, "w.yaml"), []byte("version: 1\ntask: do it\nagent: codex\nscope: {allow: []}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := submitted(t, w, "run", "-f", "w.yaml", "--attempts", "2")
	if r == nil || r.File == nil || r.File.Task != "do it" || r.File.Scope.Allow == nil || len(*r.File.Scope.Allow) != 0 || r.Flags.Attempts != 2 {
		t.Fatalf("submitted %+v\n%s", r, w.err)
	}
	if r.Places["task"].At != "w.yaml:2:7" {
		t.Errorf("the task stands at %q", r.Places["task"].At)
	}

	w = newWorld(t)
	w.env.Stdin = strings.NewReader("version: 1\ntask: piped\nagent: codex\n")
	if r := submitted(t, w, "run", "-f", "-"); r == nil || r.File.Task != "piped" {
		t.Fatalf("from standard input: %+v\n%s", r, w.err)
	}

	w = newWorld(t).stateless()
	w.env.Stdin = strings.NewReader("version: 1\nagent: codex\ntasks: x\n")
	w.want(ExitInvalid, "run", "-f", "-")
	if !strings.Contains(w.err.String(), ":3:1") || !strings.Contains(w.err.String(), `hint: did you mean "task"?`) {
		t.Errorf("stderr: %s", w.err)
	}

	w = newWorld(t).stateless()
	w.env.Stdin = strings.NewReader(strings.Repeat("#", maxOrderBytes+1))
	w.want(ExitInvalid, "run", "-f", "-")
}
