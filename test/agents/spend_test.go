package agents

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// spendRecords are what a journal says of an Attempt's requests.
func spendRecords(t *testing.T, w *world.World) (reserved []lifecycle.Reserved, settled []lifecycle.Settled) {
	t.Helper()
	for _, e := range w.Events() {
		var err error
		switch e.Type {
		case lifecycle.AttemptReserved:
			reserved = append(reserved, lifecycle.Reserved{})
			err = json.Unmarshal([]byte(e.Data), &reserved[len(reserved)-1])
		case lifecycle.AttemptSettled:
			settled = append(settled, lifecycle.Settled{})
			err = json.Unmarshal([]byte(e.Data), &settled[len(settled)-1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return reserved, settled
}

// TestSpendIsCounted: the real agents work under a limit, and what their requests cost is in the report, on the page and in the
// evidence.
func TestSpendIsCounted(t *testing.T) {
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serveModel(t, model.Script{Commands: []string{"echo good > a"}, Input: 1000, Output: 100})
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			rep := w.Sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--spend", "usd=5,tokens=2M", "--json").Want(0).Report()
			if rep.State != sallyport.AttemptAccepted {
				t.Fatalf("%s %+v %+v", rep.State, rep.Reason, rep.Refusals)
			}
			m.right(t, 2)
			s := rep.Spend
			if s == nil || s.Requests < 2 || s.InputTokens != 1000*s.Requests || s.OutputTokens != 100*s.Requests || s.Tokens != s.InputTokens+s.OutputTokens || s.Unsettled != 0 || s.USD <= 0 || s.USD > 0.1 {
				t.Fatalf("%+v", s)
			}
			reserved, settled := spendRecords(t, w)
			if int64(len(reserved)) != s.Requests || len(settled) != len(reserved) {
				t.Errorf("%d reservations, %d settlements", len(reserved), len(settled))
			}
			for i, r := range reserved {
				if settled[i].How != "usage" || settled[i].MicroUSD > r.MicroUSD || r.InputTokens < 1000 || r.OutputTokens < 1000 || r.Model == "" {
					t.Errorf("reserved %+v, settled %+v", r, settled[i])
				}
			}
			w.Sallyport("show", string(rep.Attempt)).Want(0).Says(" USD", "spent", "all of them within 2,000,000 tokens, 5.00 USD")
			w.File(filepath.Join(w.Dir, "key.pem"), w.Sallyport("keys").Want(0).Out)
			w.Sallyport("verify", rep.Evidence, "--key", filepath.Join(w.Dir, "key.pem")).Want(0).Says("Observed by the signer: spent ")
			w.Sallyport("fsck").Want(0)
		})
	}
}

// TestSpendEndsTheAttempt: the agent is stopped before the request that would go over, what it made is kept, and a retry has
// nothing left to spend.
func TestSpendEndsTheAttempt(t *testing.T) {
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A request of either agent can take at least 80,000 tokens, and says that it took 40,000.
			m := serveModel(t, model.Script{Commands: []string{"echo good > a", "true", "true", "true", "true", "true", "true", "true", "true"}, Input: 20_000, Output: 20_000})
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			rep := w.Sallyport("run", "--agent", name, "--name", "x", "-m", "Make a good.", "--spend", "tokens=300k", "--json").Want(30).Report()
			if rep.State != sallyport.AttemptFailed || rep.Reason.Code != "spend" || rep.Agent.Ended != "spend" || !strings.Contains(rep.Reason.Hint, "--spend") {
				t.Fatalf("%s %+v %+v", rep.State, rep.Reason, rep.Agent)
			}
			if s := rep.Spend; s == nil || s.Tokens > 300_000 || s.Requests < 1 || s.Tokens < 40_000 || s.Unsettled != 0 {
				t.Errorf("%+v", s)
			}
			if len(rep.Changes) != 1 {
				t.Errorf("what it made is gone: %+v", rep.Changes)
			}
			if len(rep.Refusals) != 1 || rep.Refusals[0].Reason != "spend-limit" || rep.Refusals[0].Line != "" {
				t.Errorf("%+v", rep.Refusals)
			}
			// The limit is the WorkOrder's: a second Attempt has what the first one left, which is less than one request.
			before := len(m.Calls())
			again := w.Sallyport("retry", string(rep.Attempt), "--json").Want(30).Report()
			if again.Reason.Code != "spend" || again.Spend != nil || len(m.Calls()) != before {
				t.Errorf("the retry: %+v, %+v, %d calls", again.Reason, again.Spend, len(m.Calls())-before)
			}
			for _, c := range m.Calls() {
				if c.Wrong != "" {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// onRecord checks that the report says what the journal does: what was settled, and all of what was not. It is in micro-dollars.
func onRecord(t *testing.T, w *world.World, rep sallyport.Report) (most int64) {
	t.Helper()
	reserved, settled := spendRecords(t, w)
	open := map[string]bool{}
	for _, r := range reserved {
		if open[r.ID] {
			t.Errorf("%s is reserved twice", r.ID)
		}
		open[r.ID] = true
		most += r.MicroUSD
		for _, s := range settled {
			if s.ID == r.ID {
				open[r.ID] = false
				most += s.MicroUSD - r.MicroUSD
			}
		}
	}
	unsettled := int64(len(reserved) - len(settled))
	if s := rep.Spend; s == nil || math.Abs(s.USD-float64(most)/1e6) > 1e-9 || s.Unsettled != unsettled {
		t.Errorf("%+v; on record %d, of which %d requests are not settled", s, most, unsettled)
	}
	return most
}

// TestSpendWhereverADriverIsKilled: beside each record lies an effect, and on either side of it the sums stay right.
func TestSpendWhereverADriverIsKilled(t *testing.T) {
	for name, until := range map[string]func(reserved, settled int) bool{
		"a request is reserved":  func(reserved, _ int) bool { return reserved >= 1 },
		"a request is settled":   func(_, settled int) bool { return settled >= 1 },
		"the second is reserved": func(reserved, settled int) bool { return reserved >= 2 && settled >= 1 },
		"the second is settled":  func(_, settled int) bool { return settled >= 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serveModel(t, model.Script{Commands: []string{"echo good > a", "true"}})
			w := newWorld(t, os.Getuid())
			useAgent(w, "claude-code", m)
			id := strings.TrimSpace(w.Sallyport("run", "-d", "--agent", "claude-code", "--name", "x", "-m", "Make a good.", "--spend", "usd=9").Want(0).Out)
			w.Await(name, func() bool {
				reserved, settled := spendRecords(t, w)
				return until(len(reserved), len(settled)) || w.Driver() == 0
			})
			if pid := w.Driver(); pid != 0 {
				w.Kill(pid)
			}
			rep := w.Sallyport("wait", id, "--json").Want(0).Report()
			if rep.State != sallyport.AttemptAccepted {
				t.Fatalf("%s %+v", rep.State, rep.Reason)
			}
			onRecord(t, w, rep)
			w.Sallyport("fsck").Want(0)
		})
	}
}

// TestSpendOfAKilledDriver: a request that was out when its driver was killed counts at its most, the Attempt goes on, and
// the limit holds over both drivers.
func TestSpendOfAKilledDriver(t *testing.T) {
	for _, name := range agent.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := holdModel(t, model.Script{Commands: []string{"echo good > a"}})
			think := sync.OnceFunc(func() { close(m.hold) })
			defer think()
			w := newWorld(t, os.Getuid())
			useAgent(w, name, m)
			id := strings.TrimSpace(w.Sallyport("run", "-d", "--agent", name, "--name", "x", "-m", "Make a good.", "--spend", "usd=5").Want(0).Out)
			select {
			case <-m.arrived:
			case <-time.After(time.Minute):
				t.Fatal("the agent did not call the model")
			}
			w.Kill(w.Driver())
			think()
			rep := w.Sallyport("wait", id, "--json").Want(0).Report()
			if rep.State != sallyport.AttemptAccepted || rep.Spend == nil || rep.Spend.Unsettled < 1 {
				t.Fatalf("%s %+v, %+v", rep.State, rep.Reason, rep.Spend)
			}
			if most := onRecord(t, w, rep); most < 500_000 {
				t.Errorf("%d micro-dollars: the request that nobody settled is not in it", most)
			}
			if !strings.Contains(strings.Join(rep.NotChecked, "\n"), "counted at the most that they can have cost") {
				t.Errorf("%q", rep.NotChecked)
			}
			w.Sallyport("fsck").Want(0)
		})
	}
}
