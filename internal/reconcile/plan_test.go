package reconcile

import (
	"errors"
	"reflect"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

func alloc(id sallyport.AllocationID, att sallyport.AttemptID, res sallyport.ResourceID, s sallyport.SandboxState) lifecycle.Allocation {
	return lifecycle.Allocation{ID: id, Attempt: att, Provider: "local", Resource: res, State: s, Purpose: sallyport.PurposeExecute}
}

func lists(s ...provider.Status) []Listing { return []Listing{{Provider: "local", Statuses: s}} }

func shown(res sallyport.ResourceID, alc sallyport.AllocationID, att sallyport.AttemptID) provider.Status {
	return provider.Status{ID: res, Allocation: alc, Attempt: att}
}

// kinds names the actions of a plan, for tables: "destroy r1", "orphan a1", …
func kinds(plan []Action) []string {
	out := []string{}
	for _, a := range plan {
		switch a := a.(type) {
		case Report:
			out = append(out, "report "+a.Subject)
		case MarkOrphaned:
			out = append(out, "orphan "+string(a.Allocation)+" "+string(a.Resource))
		case Destroy:
			out = append(out, "destroy "+a.Provider+" "+string(a.Resource))
		case Lookup:
			out = append(out, "lookup "+string(a.Allocation)+" "+string(a.Resource))
		case Adopt:
			out = append(out, "adopt "+string(a.Attempt))
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	const (
		run = sallyport.AttemptRunning
		acc = sallyport.AttemptAccepted
	)
	one := shown("r1", "a1", "t1")
	tests := []struct {
		name string
		w    World
		want []string
	}{
		{"nothing", World{}, nil},
		{"driven and listed", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", run, false}}}, nil},
		{"driven and not listed", World{lists(), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", run, false}}}, nil},
		{"driver lost", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", run, true}}}, []string{"adopt t1"}},
		{"driver lost before it bound the resource", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "", sallyport.SandboxProvisioning)}, []Attempt{{"t1", run, true}}}, []string{"adopt t1"}},
		{"driver and sandbox lost", World{lists(), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", run, true}}}, []string{"lookup a1 r1", "adopt t1"}},
		{"queued without a driver", World{Attempts: []Attempt{{"t1", sallyport.AttemptQueued, true}}}, []string{"adopt t1"}},
		{"ended, resource left in running", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}}}, []string{"orphan a1 r1", "destroy local r1"}},
		{"ended, teardown begun", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTeardown)}, []Attempt{{"t1", acc, true}}}, []string{"destroy local r1"}},
		{"ended, teardown of a resource that was never bound", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "", sallyport.SandboxTeardown)}, []Attempt{{"t1", acc, true}}}, []string{"orphan a1 r1", "destroy local r1"}},
		{"ended, its driver still tears down", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTeardown)}, []Attempt{{"t1", acc, false}}}, nil},
		{"ended, not listed", World{lists(), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTeardown)}, []Attempt{{"t1", acc, true}}}, []string{"lookup a1 r1"}},
		{"awaiting approval, not listed, never bound", World{lists(), []lifecycle.Allocation{alloc("a1", "t1", "", sallyport.SandboxProvisioning)}, []Attempt{{"t1", sallyport.AttemptAwaitingApproval, true}}}, []string{"lookup a1 "}},
		{"terminated and turned up", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTerminated)}, []Attempt{{"t1", acc, true}}}, []string{"orphan a1 r1", "destroy local r1"}},
		{"terminated and turned up while driven", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTerminated)}, []Attempt{{"t1", run, false}}}, []string{"report r1"}},
		{"unknown allocation of nobody", World{lists(shown("r9", "a9", "t9")), nil, nil}, []string{"destroy local r9"}},
		{"unknown allocation of an ended attempt", World{lists(shown("r9", "a9", "t1")), nil, []Attempt{{"t1", acc, true}}}, []string{"destroy local r9"}},
		{"unknown allocation of a driven attempt", World{lists(shown("r9", "a9", "t1")), nil, []Attempt{{"t1", acc, false}}}, []string{"report r9"}},
		{"unknown allocation of an attempt that has not ended", World{lists(shown("r9", "a9", "t1")), nil, []Attempt{{"t1", run, true}}}, []string{"report r9", "adopt t1"}},
		{"no allocation on it", World{lists(shown("r9", "", "")), nil, nil}, []string{"report r9"}},
		{"marked for another attempt than its allocation", World{lists(shown("r1", "a1", "t2")), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}, {"t2", run, false}}}, []string{"report r1"}},
		{"two resources of one allocation, ended", World{lists(one, shown("r2", "a1", "t1")), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}}}, []string{"report r2", "orphan a1 r1", "destroy local r1", "destroy local r2"}},
		{"two resources of one allocation, driven", World{lists(one, shown("r2", "a1", "t1")), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", run, false}}}, []string{"report r2"}},
		{"two resources of an allocation that was never bound", World{lists(shown("r2", "a1", "t1"), one), []lifecycle.Allocation{alloc("a1", "t1", "", sallyport.SandboxProvisioning)}, []Attempt{{"t1", acc, true}}}, []string{"report r2", "orphan a1 r1", "destroy local r1", "destroy local r2"}},
		{"listed twice", World{lists(one, one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxTeardown)}, []Attempt{{"t1", acc, true}}}, []string{"destroy local r1"}},
		{"only the second resource is listed", World{lists(shown("r2", "a1", "t1")), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxOrphaned)}, []Attempt{{"t1", acc, true}}}, []string{"destroy local r2", "lookup a1 r1"}},
		{"allocation at another provider", World{[]Listing{{Provider: "vm", Statuses: []provider.Status{one}}, {Provider: "local"}}, []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}}}, []string{"report r1", "lookup a1 r1"}},
		{"provider does not answer", World{[]Listing{{Provider: "local", Err: errors.New("no daemon")}}, []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}}}, []string{"report local"}},
		{"a failed list is not read", World{[]Listing{{Provider: "local", Statuses: []provider.Status{one}, Err: errors.New("half of it")}}, nil, nil}, []string{"report local"}},
		{"provider not built in", World{nil, []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, []Attempt{{"t1", acc, true}}}, []string{"report a1"}},
		{"allocation of an attempt that the journal lacks", World{lists(one), []lifecycle.Allocation{alloc("a1", "t1", "r1", sallyport.SandboxRunning)}, nil}, []string{"report r1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := Plan(tt.w)
			if got := kinds(plan); !reflect.DeepEqual(got, append([]string{}, tt.want...)) {
				t.Errorf("plan %v, want %v", got, tt.want)
			}
			for _, a := range plan {
				if a.String() == "" || a.Done() == "" {
					t.Errorf("%T says nothing", a)
				}
				if _, speaks := a.(Report); !speaks && a.Done() == a.String() {
					t.Errorf("%T has the same words for what is done and what is to be done: %s", a, a)
				}
			}
		})
	}
}
