package reconcile

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

var (
	attemptStates = []sallyport.AttemptState{sallyport.AttemptQueued, sallyport.AttemptPreparing, sallyport.AttemptRunning, sallyport.AttemptDeciding,
		sallyport.AttemptAwaitingApproval, sallyport.AttemptAccepted, sallyport.AttemptRejected, sallyport.AttemptFailed, sallyport.AttemptCancelled}
	sandboxStates = []sallyport.SandboxState{sallyport.SandboxProvisioning, sallyport.SandboxReady, sallyport.SandboxRunning, sallyport.SandboxResultReady,
		sallyport.SandboxTeardown, sallyport.SandboxTerminated, sallyport.SandboxFailed, sallyport.SandboxOrphaned}
	attemptIDs = []sallyport.AttemptID{"t1", "t2", "t3"}
	allocIDs   = []sallyport.AllocationID{"a1", "a2", "a3", "a4"}
	resources  = []sallyport.ResourceID{"r1", "r2", "r3", "r4", "r5"}
	providers  = []string{"local", "vm"}
)

// anyWorld is consistent or not: what comes in is what a crash, a bug or a restored backup may leave.
func anyWorld(t *rapid.T) World {
	var w World
	for _, id := range attemptIDs {
		if rapid.IntRange(0, 9).Draw(t, "has attempt") > 0 {
			w.Attempts = append(w.Attempts, Attempt{id, rapid.SampledFrom(attemptStates).Draw(t, "state"), rapid.Bool().Draw(t, "free")})
		}
	}
	for _, id := range allocIDs {
		if rapid.IntRange(0, 9).Draw(t, "has allocation") < 3 {
			continue
		}
		a := alloc(id, rapid.SampledFrom(attemptIDs).Draw(t, "attempt"), "", rapid.SampledFrom(sandboxStates).Draw(t, "sandbox"))
		a.Provider = rapid.SampledFrom(providers).Draw(t, "provider")
		if rapid.Bool().Draw(t, "bound") {
			a.Resource = rapid.SampledFrom(resources).Draw(t, "resource")
		}
		w.Allocations = append(w.Allocations, a)
	}
	for _, p := range providers {
		l := Listing{Provider: p}
		if rapid.IntRange(0, 5).Draw(t, "answers") == 0 {
			l.Err = errors.New("no answer")
		}
		for _, r := range resources {
			if !rapid.Bool().Draw(t, "listed") {
				continue
			}
			s := provider.Status{ID: sallyport.ResourceID(p) + ":" + r, Allocation: rapid.SampledFrom(append([]sallyport.AllocationID{""}, allocIDs...)).Draw(t, "mark")}
			s.Attempt = rapid.SampledFrom(append([]sallyport.AttemptID{""}, attemptIDs...)).Draw(t, "mark's attempt")
			for i, a := range w.Allocations { // mostly the mark is true
				if a.ID != s.Allocation || rapid.IntRange(0, 4).Draw(t, "true mark") == 0 {
					continue
				}
				s.Attempt = a.Attempt
				if a.Provider == p && a.Resource != "" && rapid.Bool().Draw(t, "the bound one") {
					w.Allocations[i].Resource = s.ID
				}
			}
			l.Statuses = append(l.Statuses, s)
		}
		w.Listings = append(w.Listings, l)
	}
	return w
}

func attempt(w World, id sallyport.AttemptID) (Attempt, bool) {
	for _, a := range w.Attempts {
		if a.ID == id {
			return a, true
		}
	}
	return Attempt{}, false
}

func allocation(w World, id sallyport.AllocationID) (lifecycle.Allocation, bool) {
	for _, a := range w.Allocations {
		if a.ID == id {
			return a, true
		}
	}
	return lifecycle.Allocation{}, false
}

// owners are all Attempts that anything connects with a resource: the mark and the journal.
func owners(w World, s provider.Status) []Attempt {
	var out []Attempt
	if a, ok := attempt(w, s.Attempt); ok {
		out = append(out, a)
	}
	if alc, ok := allocation(w, s.Allocation); ok {
		if a, ok := attempt(w, alc.Attempt); ok {
			out = append(out, a)
		}
	}
	return out
}

func status(w World, prov string, id sallyport.ResourceID) (provider.Status, bool) {
	for _, l := range w.Listings {
		if l.Provider != prov || l.Err != nil {
			continue
		}
		for _, s := range l.Statuses {
			if s.ID == id {
				return s, true
			}
		}
	}
	return provider.Status{}, false
}

func pick[T Action](plan []Action) []T {
	var out []T
	for _, a := range plan {
		if t, ok := a.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func law(t *testing.T, name string, check func(*rapid.T, World, []Action)) {
	t.Run(name, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			w := anyWorld(t)
			check(t, w, Plan(w))
		})
	})
}

func TestLaws(t *testing.T) {
	law(t, "a resource of an attempt with a live lease is never destroyed nor marked", func(t *rapid.T, w World, plan []Action) {
		for _, d := range pick[Destroy](plan) {
			s, _ := status(w, d.Provider, d.Resource)
			for _, o := range owners(w, s) {
				if !o.Free {
					t.Fatalf("%v, but %v is driven", d, o)
				}
			}
		}
		for _, m := range pick[MarkOrphaned](plan) {
			if o, ok := attempt(w, m.Attempt); !ok || !o.Free {
				t.Fatalf("%v, but %v is driven or unknown", m, o)
			}
		}
	})
	law(t, "a workspace whose attempt has not ended is never destroyed", func(t *rapid.T, w World, plan []Action) {
		for _, d := range pick[Destroy](plan) {
			s, _ := status(w, d.Provider, d.Resource)
			for _, o := range owners(w, s) {
				if !o.State.Ended() {
					t.Fatalf("%v, but %v has not ended", d, o)
				}
			}
		}
	})
	law(t, "only what was listed is destroyed, by the exact id of the provider that listed it", func(t *rapid.T, w World, plan []Action) {
		for _, d := range pick[Destroy](plan) {
			if _, ok := status(w, d.Provider, d.Resource); !ok {
				t.Fatalf("%v was not listed", d)
			}
		}
	})
	law(t, "what bears no allocation is never touched", func(t *rapid.T, w World, plan []Action) {
		for _, d := range pick[Destroy](plan) {
			if s, _ := status(w, d.Provider, d.Resource); s.Allocation == "" {
				t.Fatal(d)
			}
		}
	})
	law(t, "an attempt is adopted exactly if it has not ended and nobody drives it", func(t *rapid.T, w World, plan []Action) {
		adopted := map[sallyport.AttemptID]int{}
		for _, a := range pick[Adopt](plan) {
			adopted[a.Attempt]++
		}
		for _, a := range w.Attempts {
			want := 0
			if a.Free && !a.State.Ended() {
				want = 1
			}
			if adopted[a.ID] != want {
				t.Fatalf("%v adopted %d times", a, adopted[a.ID])
			}
			delete(adopted, a.ID)
		}
		if len(adopted) > 0 {
			t.Fatalf("adopted from nowhere: %v", adopted)
		}
	})
	law(t, "every listed resource without authority is destroyed", func(t *rapid.T, w World, plan []Action) {
		destroyed := map[string]bool{}
		for _, d := range pick[Destroy](plan) {
			destroyed[d.Provider+" "+string(d.Resource)] = true
		}
		for _, l := range w.Listings {
			for _, s := range l.Statuses {
				a, known := allocation(w, s.Allocation)
				o, ok := attempt(w, a.Attempt)
				plain := l.Err == nil && known && ok && a.Provider == l.Provider && s.Attempt == a.Attempt
				if plain && o.Free && o.State.Ended() && !destroyed[l.Provider+" "+string(s.ID)] {
					t.Fatalf("%v of %v stays", s, o)
				}
			}
		}
	})
	law(t, "an open allocation that its provider did not list is looked up, never marked or concluded gone", func(t *rapid.T, w World, plan []Action) {
		for _, a := range w.Allocations {
			o, ok := attempt(w, a.Attempt)
			listed, answered := false, false
			for _, l := range w.Listings {
				if l.Provider != a.Provider || l.Err != nil {
					continue
				}
				answered = true
				for _, s := range l.Statuses {
					listed = listed || (s.Allocation == a.ID && (a.Resource == "" || a.Resource == s.ID))
				}
			}
			want := a.State != sallyport.SandboxTerminated && ok && o.Free && answered && !listed
			got := slices.ContainsFunc(pick[Lookup](plan), func(l Lookup) bool { return l.Allocation == a.ID })
			if got != want {
				t.Fatalf("looked up: %v, want %v, for %v of %v", got, want, a, o)
			}
			marked := slices.ContainsFunc(pick[MarkOrphaned](plan), func(m MarkOrphaned) bool { return m.Allocation == a.ID })
			if marked && !listed {
				t.Fatalf("%v was marked although nobody shows it", a)
			}
		}
	})
	law(t, "marks that the journal's table does not allow are not planned", func(t *rapid.T, w World, plan []Action) {
		for _, m := range pick[MarkOrphaned](plan) {
			a, _ := allocation(w, m.Allocation)
			if _, err := lifecycle.NextSandbox(a.State, lifecycle.AllocationOrphaned); err != nil {
				t.Fatal(err)
			}
			if a.Resource != "" && a.Resource != m.Resource {
				t.Fatalf("%v would bind a second id to %v", m, a)
			}
		}
	})
	law(t, "an allocation is bound to one resource at most", func(t *rapid.T, w World, plan []Action) {
		marks := map[sallyport.AllocationID]int{}
		for _, m := range pick[MarkOrphaned](plan) {
			if marks[m.Allocation]++; marks[m.Allocation] > 1 {
				t.Fatal(plan)
			}
		}
	})
	law(t, "a resource is marked before it is destroyed, and each action comes once", func(t *rapid.T, w World, plan []Action) {
		for i, a := range plan {
			if i > 0 && plan[i-1].rank() > a.rank() {
				t.Fatalf("%v after %v", a, plan[i-1])
			}
			if slices.Contains(plan[:i], a) {
				t.Fatalf("twice: %v", a)
			}
		}
	})
	law(t, "nothing is concluded about a provider that did not answer", func(t *rapid.T, w World, plan []Action) {
		for _, l := range w.Listings {
			if l.Err == nil {
				continue
			}
			for _, a := range plan {
				d, isDestroy := a.(Destroy)
				k, isLookup := a.(Lookup)
				if (isDestroy && d.Provider == l.Provider) || (isLookup && k.Provider == l.Provider) {
					t.Fatal(a)
				}
			}
		}
	})
	law(t, "the order of the lists does not matter", func(t *rapid.T, w World, plan []Action) {
		v := World{Listings: rapid.Permutation(w.Listings).Draw(t, "listings"), Allocations: rapid.Permutation(w.Allocations).Draw(t, "allocations"), Attempts: rapid.Permutation(w.Attempts).Draw(t, "attempts")}
		for i := range v.Listings {
			v.Listings[i].Statuses = rapid.Permutation(v.Listings[i].Statuses).Draw(t, "statuses")
		}
		if again := Plan(v); !reflect.DeepEqual(again, plan) {
			t.Fatalf("%v\n%v", plan, again)
		}
	})
	law(t, "once carried out, a plan leaves nothing but reports to do", func(t *rapid.T, w World, plan []Action) {
		for _, a := range Plan(carryOut(w, plan)) {
			if _, ok := a.(Report); !ok {
				t.Fatalf("still to do: %v\nfirst plan: %v", a, plan)
			}
		}
	})
}

// carryOut is an executor for whom everything succeeds and every look-up says "gone".
func carryOut(w World, plan []Action) World {
	v := World{Attempts: slices.Clone(w.Attempts), Allocations: slices.Clone(w.Allocations)}
	gone := func(prov string, id sallyport.ResourceID) bool {
		return slices.ContainsFunc(pick[Destroy](plan), func(d Destroy) bool { return d.Provider == prov && d.Resource == id })
	}
	for _, l := range w.Listings {
		l.Statuses = slices.DeleteFunc(slices.Clone(l.Statuses), func(s provider.Status) bool { return l.Err == nil && gone(l.Provider, s.ID) })
		v.Listings = append(v.Listings, l)
	}
	for i := range v.Allocations {
		a := &v.Allocations[i]
		removed := slices.ContainsFunc(pick[Destroy](plan), func(d Destroy) bool { return d.Allocation == a.ID && (a.Resource == "" || d.Resource == a.Resource) })
		absent := slices.ContainsFunc(pick[Lookup](plan), func(l Lookup) bool { return l.Allocation == a.ID })
		if removed || absent {
			a.State = sallyport.SandboxTerminated
		}
	}
	for i := range v.Attempts {
		if slices.Contains(pick[Adopt](plan), Adopt{v.Attempts[i].ID}) {
			v.Attempts[i].Free = false
		}
	}
	return v
}
