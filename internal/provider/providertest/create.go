package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

var describePromises = []promise{
	{"Describe reports every layer once, in order", func(s *suite) {
		c := s.caps()
		var got []sallyport.Layer
		for _, l := range c.Layers {
			got = append(got, l.Layer)
			if l.Status == "" || l.Proof == "" || l.Grade == "" {
				s.Errorf("layer %s is reported without status, proof or grade: %+v", l.Layer, l)
			}
		}
		if !slices.Equal(got, sallyport.Layers()) {
			s.Errorf("layers %v, expected %v", got, sallyport.Layers())
		}
		if c.StatusBy != "keeper" && c.StatusBy != "runner" {
			s.Errorf("StatusBy %q", c.StatusBy)
		}
		if s.p.Name() == "" {
			s.Error("no name")
		}
	}},
	{"Describe leaves nothing behind", func(s *suite) {
		s.caps()
		all, err := s.p.List(s.ctx)
		s.must(err, "List")
		if len(all) > 0 {
			s.Errorf("List shows %+v", all)
		}
	}},
	{"Layers is the receipt of this sandbox, with what was required", func(s *suite) {
		spec, auth := s.newSpec(ActExit, "0")
		spec.Require = []sallyport.Layer{sallyport.LayerRuntime, sallyport.LayerOutput}
		ls, err := s.createFrom(spec, auth).connect().Layers(s.ctx)
		s.must(err, "Layers")
		var got, required []sallyport.Layer
		for _, l := range ls {
			got = append(got, l.Layer)
			if l.Required {
				required = append(required, l.Layer)
			}
		}
		if !slices.Equal(got, sallyport.Layers()) || !slices.Equal(required, spec.Require) {
			s.Errorf("layers %v, of them required %v", got, required)
		}
	}},
}

var createPromises = []promise{
	{"Create of an equal spec again is the same resource", func(s *suite) {
		b := s.create(ActExit, "3")
		again, err := s.p.Create(s.ctx, b.spec)
		s.must(err, "Create again")
		if again != b.id {
			s.Errorf("%s, then %s", b.id, again)
		}
		if _, e := b.run(); e.Code != 3 {
			s.Errorf("after the second Create the command ended with %+v", e)
		}
		again, err = s.p.Create(s.ctx, b.spec)
		s.must(err, "Create after the command's end")
		if e, err := b.connect().Wait(s.ctx); again != b.id || err != nil || e.Code != 3 {
			s.Errorf("a repeat after the end gave %s, %+v, %v", again, e, err)
		}
	}},
	{"Create of another spec is CodeConflict", func(s *suite) {
		b := s.create(ActExit, "0")
		other := b.spec
		other.Limits.Output++
		_, err := s.p.Create(s.ctx, other)
		s.want(err, sallyport.CodeConflict, "Create")
		if _, e := b.run(); e.Cause != "exit" {
			s.Errorf("the first sandbox did not survive: %+v", e)
		}
	}},
	{"Create by many callers at once is one resource", func(s *suite) {
		spec, auth := s.newSpec(ActMark)
		ids := make([]sallyport.ResourceID, 4)
		errs := make([]error, len(ids))
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() { ids[i], errs[i] = s.p.Create(s.ctx, spec) })
		}
		wg.Wait()
		s.destroyAtEnd(ids[0])
		for i := range ids {
			s.must(errs[i], "Create")
			if ids[i] != ids[0] {
				s.Errorf("two resources: %v", ids)
			}
		}
		all, err := s.p.List(s.ctx)
		s.must(err, "List")
		if len(all) != 1 {
			s.Errorf("List shows %d: %+v", len(all), all)
		}
		b := &sandbox{s, spec, auth, ids[0]}
		if out, _ := b.run(); string(out) != "ran\n" {
			s.Errorf("output %q", out)
		}
	}},
	{"Create refuses another factory, and a spec without limits or lease, with CodeInvalid", func(s *suite) {
		for name, spoil := range map[string]func(*provider.Spec){
			"factory":    func(p *provider.Spec) { p.Factory = "fac_00000000000000000000000000" },
			"allocation": func(p *provider.Spec) { p.Allocation = "../escape" },
			"secret":     func(p *provider.Spec) { p.SecretSum = "" },
			"no argv":    func(p *provider.Spec) { p.Command.Argv = nil },
			"no time":    func(p *provider.Spec) { p.Limits.Time = 0 },
			"no memory":  func(p *provider.Spec) { p.Limits.Memory = 0 },
			"no pids":    func(p *provider.Spec) { p.Limits.PIDs = 0 },
			"no disk":    func(p *provider.Spec) { p.Limits.Disk = 0 },
			"no output":  func(p *provider.Spec) { p.Limits.Output = 0 },
			"no lease":   func(p *provider.Spec) { p.LeaseTTL = 0 },
			"long lease": func(p *provider.Spec) { p.LeaseTTL = provider.MaxLease + 1 },
			"workspace":  func(p *provider.Spec) { p.Workspace.Path = "relative" },
			"home":       func(p *provider.Spec) { p.Home = "" },
			"file name":  func(p *provider.Spec) { p.Command.Files = []provider.File{{Name: "../../../etc/passwd"}} },
		} {
			spec, _ := s.newSpec(ActExit, "0")
			spoil(&spec)
			_, err := s.p.Create(s.ctx, spec)
			s.want(err, sallyport.CodeInvalid, "Create with a bad "+name)
		}
		s.nothingListed()
	}},
	{"Create with a required layer that is not held is CodeUnsupported and leaves nothing", func(s *suite) {
		var missing []sallyport.Layer
		for _, l := range s.caps().Layers {
			if l.Status == sallyport.LayerNotHeld {
				missing = append(missing, l.Layer)
			}
		}
		for _, l := range append(missing, "a-layer-that-nobody-knows") {
			spec, _ := s.newSpec(ActExit, "0")
			spec.Require = []sallyport.Layer{l}
			id, err := s.p.Create(s.ctx, spec)
			s.want(err, sallyport.CodeUnsupported, fmt.Sprintf("Create that requires %s", l))
			s.nothingListed()
			if id != "" {
				s.destroyAtEnd(id)
			}
		}
	}},
	{"Create with what looks like a credential and is no placeholder never gives a sandbox", func(s *suite) {
		s.needs(sallyport.LayerCredentials, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActEnv)
		spec.Require = []sallyport.Layer{sallyport.LayerCredentials}
		spec.Command.Env["SUITE_API_TOKEN"] = "placeholder"
		_, err := s.p.Create(s.ctx, spec)
		s.want(err, sallyport.CodeUnsupported, "Create")
		s.nothingListed()
		spec, auth = s.newSpec(ActEnv)
		spec.Require = []sallyport.Layer{sallyport.LayerCredentials}
		spec.Command.Env["SUITE_API_TOKEN"] = "placeholder"
		spec.Command.Placeholders = []string{"SUITE_API_TOKEN"}
		s.createFrom(spec, auth)
	}},
	{"Create whose caller stops waiting is CodeUnknown, and can be made again", func(s *suite) {
		for _, d := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
			spec, auth := s.newSpec(ActExit, "4")
			ctx, cancel := context.WithTimeout(s.ctx, d)
			_, err := s.p.Create(ctx, spec)
			cancel()
			if err != nil {
				s.want(err, sallyport.CodeUnknown, fmt.Sprintf("Create, %v", d))
			} else if d == 0 {
				s.Error("Create with an ended context succeeded")
			}
			b := s.createFrom(spec, auth)
			if _, e := b.run(); e.Code != 4 {
				s.Errorf("after an abandoned Create (%v) and another: %+v", d, e)
			}
		}
	}},
	{"Create whose caller stops waiting leaves nothing after Destroy", func(s *suite) {
		for _, d := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond} {
			spec, _ := s.newSpec(ActWait)
			ctx, cancel := context.WithTimeout(s.ctx, d)
			_, _ = s.p.Create(ctx, spec)
			cancel()
			all, err := s.p.List(s.ctx)
			s.must(err, "List")
			for _, st := range all {
				if st.Allocation != spec.Allocation {
					s.Errorf("List shows %+v", st)
				}
				s.destroyed(s.ctx, st.ID)
			}
			time.Sleep(100 * time.Millisecond)
			s.nothingListed()
		}
	}},
}

func (s *suite) nothingListed() {
	s.Helper()
	all, err := s.p.List(s.ctx)
	s.must(err, "List")
	for _, st := range all {
		s.Errorf("List shows %+v", st)
	}
}

var identityPromises = []promise{
	{"Lookup of an absent id is CodeNotFound", func(s *suite) {
		b := s.create(ActExit, "0")
		st, err := s.p.Lookup(s.ctx, b.id)
		s.must(err, "Lookup")
		if st.ID != b.id || st.Allocation != b.spec.Allocation || st.Attempt != b.spec.Attempt || !st.Alive || st.HalfMade {
			s.Errorf("Lookup of a ready one: %+v", st)
		}
		s.must(s.p.Destroy(s.ctx, b.id), "Destroy")
		_, err = s.p.Lookup(s.ctx, b.id)
		s.want(err, sallyport.CodeNotFound, "Lookup")
		_, err = s.p.Connect(s.ctx, b.id, b.auth)
		s.want(err, sallyport.CodeNotFound, "Connect")
	}},
	{"an id that is none is CodeInvalid", func(s *suite) {
		for _, id := range []sallyport.ResourceID{"", "x", "../../etc", "a:b:c", sallyport.ResourceID(s.p.Name()), sallyport.ResourceID(s.p.Name() + ":::"),
			sallyport.ResourceID(s.p.Name() + ":fac_00000000000000000000000000:../../../tmp")} {
			_, err := s.p.Lookup(s.ctx, id)
			s.want(err, sallyport.CodeInvalid, "Lookup "+string(id))
			s.want(s.p.Destroy(s.ctx, id), sallyport.CodeInvalid, "Destroy "+string(id))
			_, err = s.p.Connect(s.ctx, id, provider.Auth{})
			s.want(err, sallyport.CodeInvalid, "Connect "+string(id))
		}
	}},
	{"an id of another factory is CodeUnavailable, and List shows only this factory's", func(s *suite) {
		other, otherSpec := s.open(s.T)
		b := s.create(ActExit, "6")
		spec, _ := otherSpec(ActExit, "0")
		theirs, err := other.Create(s.ctx, spec)
		s.must(err, "Create by another factory")
		defer func() { s.must(other.Destroy(s.ctx, theirs), "Destroy by its own factory") }()
		_, err = other.Lookup(s.ctx, b.id)
		s.want(err, sallyport.CodeUnavailable, "Lookup")
		_, err = other.Connect(s.ctx, b.id, b.auth)
		s.want(err, sallyport.CodeUnavailable, "Connect")
		s.want(other.Destroy(s.ctx, b.id), sallyport.CodeUnavailable, "Destroy")
		all, err := s.p.List(s.ctx)
		s.must(err, "List")
		if len(all) != 1 || all[0].ID != b.id {
			s.Errorf("List shows %+v, expected only %s", all, b.id)
		}
		if _, e := b.run(); e.Code != 6 {
			s.Errorf("another factory's Destroy reached it: %+v", e)
		}
	}},
	{"List shows what Lookup shows, through the whole life", func(s *suite) {
		b := s.create(ActExit, "0")
		for _, step := range []func(){func() {}, func() { b.run() }} {
			step()
			st, err := s.p.Lookup(s.ctx, b.id)
			s.must(err, "Lookup")
			all, err := s.p.List(s.ctx)
			s.must(err, "List")
			if len(all) != 1 || all[0] != st {
				s.Errorf("List %+v, Lookup %+v", all, st)
			}
		}
	}},
}

var destroyPromises = []promise{
	{"Destroy of an absent one is nil, and twice is nil", func(s *suite) {
		b := s.create(ActExit, "0")
		for range 3 {
			s.must(s.p.Destroy(s.ctx, b.id), "Destroy")
		}
	}},
	{"Destroy in mid-run ends it", func(s *suite) {
		b := s.create(ActLinger)
		w := b.started()
		b.untilReady(w)
		s.destroyed(s.ctx, b.id)
		_, err := w.Wait(s.ctx)
		s.want(err, sallyport.CodeUnavailable, "Wait on the wire of a destroyed sandbox")
	}},
	{"Destroy before Start", func(s *suite) {
		b := s.create(ActWait)
		b.connect()
		s.destroyed(s.ctx, b.id)
	}},
	{"Destroy by many at once", func(s *suite) {
		b := s.create(ActLinger)
		b.untilReady(b.started())
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = s.p.Destroy(s.ctx, b.id) })
		}
		wg.Wait()
		for _, err := range errs {
			s.must(err, "Destroy")
		}
		s.destroyed(s.ctx, b.id)
	}},
	{"Destroy leaves the others alone", func(s *suite) {
		b, other := s.create(ActDrip, "50"), s.create(ActWait)
		w := b.started()
		other.untilReady(other.started())
		s.destroyed(s.ctx, other.id)
		if out, e := b.finish(w); e.Code != 0 || string(out) != string(Numbers(50)) {
			s.Errorf("%+v after the neighbour's Destroy", e)
		}
	}},
}
