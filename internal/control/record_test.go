package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

// driving is a driver that holds the lease of an Attempt in preparation.
func driving(t *testing.T) *driver {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	c, err := Open(t.Context(), Config{State: filepath.Join(t.TempDir(), "state"),
		Providers: func(sallyport.FactoryID, string) ([]provider.Provider, error) { return nil, nil },
		Driver:    func(sallyport.AttemptID, *os.File, []string) error { return errors.New("nobody is to be driven") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	id := sallyport.AttemptID(sallyport.FormatID(sallyport.AttemptPrefix, [16]byte{1}))
	if _, err := c.journal.Append(t.Context(), nil, journal.Record{Type: lifecycle.AttemptCreated, Attempt: id, Data: lifecycle.Created{WorkOrder: "wo_1", Name: "x", Number: 1, Manifest: sallyport.Sum(nil),
		Base: sallyport.ObjectID(strings.Repeat("1", 40)), Repository: "/repo", Submitter: "una", StartTree: sallyport.ObjectID(strings.Repeat("2", 40)), Separation: "none"}}); err != nil {
		t.Fatal(err)
	}
	holder, err := journal.SelfHolder()
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.journal.Acquire(t.Context(), id, holder, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{c: c, id: id, lease: lease, m: sallyport.Manifest{Agent: sallyport.Agent{Endpoint: &sallyport.Endpoint{}}}}
	if err := d.record(t.Context(), journal.Record{Type: lifecycle.AttemptStage, Data: lifecycle.Stage{State: sallyport.AttemptPreparing}}); err != nil {
		t.Fatal(err)
	}
	return d
}

// speaker is a wire on which a command says text, and then err happens.
type speaker struct {
	provider.Wire
	text string
	err  error
}

func (s speaker) Output(_ context.Context, _ int64, w provider.Writer) (int64, error) {
	n, err := w.Write([]byte(s.text))
	return int64(n), errors.Join(err, s.err)
}

// TestALogIsRecordedOnceItIsWhole: what is recorded is what lies there, and of a copy that was cut short nothing is,
// nor of the one that it overwrote.
func TestALogIsRecordedOnceItIsWhole(t *testing.T) {
	d := driving(t)
	if err := os.MkdirAll(d.c.attemptFolder(d.id), 0o700); err != nil {
		t.Fatal(err)
	}
	cut := errors.New("cut")
	for i, step := range []speaker{{text: "half", err: cut}, {text: "all of it"}, {text: "other", err: cut}, {text: ""}, {text: "again"}} {
		if err := d.copyOutput(t.Context(), step, "agent"); (err != nil) != (step.err != nil) {
			t.Fatalf("step %d: %v", i, err)
		}
		at, err := d.attempt(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var want []lifecycle.Log
		if step.err == nil {
			want = []lifecycle.Log{{Name: "agent", Digest: sallyport.Sum([]byte(step.text)), Bytes: int64(len(step.text))}}
		}
		if !slices.Equal(at.Logs, want) {
			t.Errorf("step %d: %+v, want %+v", i, at.Logs, want)
		}
	}
}

// TestEgressIsRecorded: what each driver's gateway let out adds up in the journal.
func TestEgressIsRecorded(t *testing.T) {
	d := driving(t)
	for driver, requests := range []int{2, 0, 3} {
		if err := d.record(t.Context(), journal.Record{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{Open: true}}); err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d.refusals = hear(t.Context(), d)
		d.gateway, err = gateway.Serve(t.Context(), ln, gateway.Config{Placeholder: "sallyport-placeholder-0123456789abcdef", Credential: gateway.FromEnv("NOBODYS", func(string) string { return "" }),
			Endpoint: sallyport.Endpoint{Upstream: "https://model.invalid", Header: "x-api-key", Listen: 18790, Paths: []string{"/v1/messages"}, CredentialEnv: "NOBODYS"}})
		if err != nil {
			t.Fatal(err)
		}
		for range requests {
			answer, err := http.Get("http://" + ln.Addr().String() + "/elsewhere")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
		if err := d.closeGateway(t.Context()); err != nil {
			t.Fatalf("driver %d: %v", driver, err)
		}
		if err := d.closeGateway(t.Context()); err != nil {
			t.Fatalf("driver %d, again: %v", driver, err)
		}
	}
	at, err := d.attempt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e := egressOf(at, d.m); e == nil || *e != (evidence.Egress{Requests: 5, Refused: 5, BytesUp: at.Egress.BytesUp, BytesDown: at.Egress.BytesDown}) {
		t.Errorf("%+v", e)
	}
}

// What is not known is not zero.
func TestEgressOfAnEndedDriver(t *testing.T) {
	with := sallyport.Manifest{Agent: sallyport.Agent{Endpoint: &sallyport.Endpoint{}}}
	for name, c := range map[string]struct {
		at      journal.Attempt
		m       sallyport.Manifest
		want    *evidence.Egress
		unknown bool
	}{
		"there is no way out":           {journal.Attempt{}, sallyport.Manifest{}, &evidence.Egress{}, false},
		"an older version had it open":  {journal.Attempt{}, with, nil, false},
		"nothing went through":          {journal.Attempt{Egress: &lifecycle.Egress{}}, with, &evidence.Egress{}, false},
		"something went through":        {journal.Attempt{Egress: &lifecycle.Egress{Requests: 2, BytesUp: 1}}, with, &evidence.Egress{Requests: 2, BytesUp: 1}, false},
		"a driver did not live to tell": {journal.Attempt{Egress: &lifecycle.Egress{Requests: 2}, EgressOpen: 1}, with, nil, true},
	} {
		got := egressOf(c.at, c.m)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if said := strings.Join(egressUnknown(c.at), ""); (said != "") != c.unknown || c.unknown && !strings.Contains(said, "at least 2 requests") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
