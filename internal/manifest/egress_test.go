package manifest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

const (
	wholeA = `{host: a.example, methods: ["*"], own-auth: true}`
	wholeB = `{host: b.example, methods: ["*"], own-auth: true}`
	plainC = "{host: c.example, protocol: http}"
)

func reach(t *testing.T, entries ...any) []sallyport.EgressRule {
	t.Helper()
	rules, err := egress.ParseAll(entries)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestEgressCompiles: who may add, who only narrows, and what bounds it all.
func TestEgressCompiles(t *testing.T) {
	const etc = "/etc/sallyport/policy.yaml"
	c := map[string]any{"host": "c.example", "protocol": "http"}
	flagC := sallyport.WorkOrder{Reach: reach(t, c)}
	for _, w := range []struct {
		name string
		in   func() Input
		want string // the lines of what may be reached, or the error's subject and message
		code sallyport.Code
	}{
		{"nobody says anything", func() Input { return input(repository(t, "")) }, "", 0},
		{"the repository asks and is granted", func() Input { return input(repository(t, "egress: ["+wholeA+"]\n")) }, wholeA, 0},
		{"the repository asks and nobody granted", func() Input {
			in := input(repository(t, "egress:\n- "+wholeA+"\n"))
			in.Granted = ""
			return in
		}, "sallyport.yaml:3:3 the repository asks for egress " + wholeA + ", which nobody has granted", sallyport.CodeDenied},
		{"granted for another rule", func() Input {
			in := input(repository(t, "egress:\n- "+wholeA+"\n"))
			in.Granted = AsksDigest(*repository(t, "egress:\n- "+wholeB+"\n"))
			return in
		}, "sallyport.yaml:3:3 the repository asks for egress " + wholeA + ", which nobody has granted", sallyport.CodeDenied},
		{"the user's own file adds", func() Input {
			in := input(repository(t, "egress: ["+wholeA+"]\n"))
			in.User = operator(t, "config.yaml", "egress: ["+wholeB+", "+wholeA+"]\n")
			return in
		}, wholeA + " " + wholeB, 0},
		{"a flag adds", func() Input { return flags(input(repository(t, "egress: ["+wholeA+"]\n")), flagC) }, wholeA + " " + plainC, 0},
		{"a flag cannot where grants are forbidden", func() Input {
			in := flags(input(nil), flagC)
			in.Ceiling = operator(t, etc, "grants: forbid\n")
			return in
		}, "flag egress " + plainC + " goes beyond policy, and the policy at " + etc + ":2:9 forbids grants", sallyport.CodeDenied},
		{"a work order narrows", func() Input {
			return order(t, input(repository(t, "egress: ["+wholeA+", "+plainC+"]\n")), "egress: ["+plainC+"]\n")
		}, plainC, 0},
		{"a work order narrows to nothing", func() Input { return order(t, input(repository(t, "egress: ["+wholeA+"]\n")), "egress: []\n") }, "", 0},
		{"a work order cannot add", func() Input {
			return order(t, input(repository(t, "egress: ["+wholeA+"]\n")), "egress:\n- "+wholeA+"\n- "+plainC+"\n")
		},
			"w.yaml:5:3 the agent may not reach " + plainC + " by policy; a work order can only narrow", sallyport.CodeDenied},
		{"a work order below nothing", func() Input { return order(t, input(nil), "egress: ["+plainC+"]\n") },
			"w.yaml:3:10 the agent may not reach " + plainC + " by policy; a work order can only narrow", sallyport.CodeDenied},
		{"the ceiling holds", func() Input {
			in := flags(input(nil), flagC)
			in.Ceiling = operator(t, etc, "egress: ["+wholeA+"]\n")
			return in
		}, "egress " + plainC + " is beyond the ceiling at " + etc + ":2:9", sallyport.CodeDenied},
		{"the ceiling allows and adds nothing", func() Input {
			in := flags(input(nil), flagC)
			in.Ceiling = operator(t, etc, "egress: ["+wholeA+", "+plainC+"]\n")
			return in
		}, plainC, 0},
		{"a rule that says nothing", func() Input {
			return input(repository(t, "egress: [{host: c.example, protocol: http, methods: []}, {host: c.example, protocol: http, paths: []}]\n"))
		}, "", 0},
	} {
		m, err := Compile(w.in())
		if w.code != 0 {
			var e *sallyport.Error
			if sallyport.CodeOf(err) != w.code || !errors.As(err, &e) || e.Subject+" "+e.Message != w.want || e.Hint == "" {
				t.Errorf("%s: %v", w.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		var lines []string
		for _, r := range m.Egress {
			lines = append(lines, egress.Line(r))
		}
		if got := strings.Join(lines, " "); got != w.want || m.Egress == nil {
			t.Errorf("%s: got %q, want %q", w.name, got, w.want)
		}
		if _, _, err := Freeze(m); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}

func TestResolveIsTheOperators(t *testing.T) {
	in := input(nil)
	if m := compiled(t, in); m.Resolve != nil {
		t.Errorf("%v", m.Resolve)
	}
	in.User = operator(t, "config.yaml", "resolve: {a.example: 192.0.2.1, b.example: '::ffff:192.0.2.2', c.example: '[::1]:8443', d.example: '[::ffff:192.0.2.3]:443', e.example: '192.0.2.4:80'}\n")
	in.Ceiling = operator(t, "/etc/sallyport/policy.yaml", "resolve: {a.example: 192.0.2.9}\n")
	if m := compiled(t, in); !reflect.DeepEqual(m.Resolve, map[string]string{"a.example": "192.0.2.9", "b.example": "192.0.2.2", "c.example": "[::1]:8443", "d.example": "192.0.2.3:443", "e.example": "192.0.2.4:80"}) {
		t.Errorf("%v", m.Resolve)
	}
	if _, err := ParseRepository("sallyport.yaml", []byte("version: 1\nresolve: {a.example: 192.0.2.1}\n")); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a repository gives addresses to names: %v", err)
	}
}

// TestOldManifestsThaw: one that was frozen before there were rules has the same bytes and digest now.
func TestOldManifestsThaw(t *testing.T) {
	b, digest, err := Freeze(compiled(t, input(nil)))
	if err != nil || !strings.Contains(string(b), `"egress":[]`) || strings.Contains(string(b), "resolve") {
		t.Fatalf("%v\n%s", err, b)
	}
	if _, err := Thaw(b, digest); err != nil {
		t.Error(err)
	}
}
