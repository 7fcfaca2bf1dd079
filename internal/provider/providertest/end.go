package providertest

import (
	"bytes"
	"context"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sallyport.dev/sallyport"
)

func sortedEnv(env map[string]string) []string {
	var kv []string
	for k, v := range env {
		kv = append(kv, k+"="+v)
	}
	sort.Strings(kv)
	return kv
}

func splitLines(s string) []string {
	return strings.SplitAfter(strings.TrimSuffix(s, "\n")+"\n", "\n")[:strings.Count(s, "\n")]
}

var endPromises = []promise{
	{"exit statuses are the command's own", func(s *suite) {
		for _, code := range []int{0, 1, 42, 255} {
			_, e := s.create(ActExit, strconv.Itoa(code)).run()
			if !e.Started || e.Code != code || e.Signal != "" || e.Cause != "exit" || e.By != s.statusBy() {
				s.Errorf("status %d: %+v", code, e)
			}
		}
	}},
	{"a signal is the command's end", func(s *suite) {
		for _, name := range []string{"TERM", "KILL", "SEGV"} {
			_, e := s.create(ActSignal, name).run()
			if !e.Started || e.Code != -1 || e.Signal != "SIG"+name || e.Cause != "signal" {
				s.Errorf("SIG%s: %+v", name, e)
			}
		}
	}},
	{"Wait after a reconnect gives the recorded end", func(s *suite) {
		b := s.create(ActExit, "9")
		w := b.started()
		first, err := w.Wait(s.ctx)
		s.must(err, "Wait")
		for range 3 {
			w.Close()
			b.auth.Fence++
			w = b.connect()
			again, err := w.Wait(s.ctx)
			s.must(err, "Wait again")
			if again != first {
				s.Errorf("first %+v, then %+v", first, again)
			}
		}
	}},
	{"Stop ends everything the command started", func(s *suite) {
		b := s.create(ActLinger)
		w := b.started()
		b.untilReady(w)
		began := time.Now()
		s.must(w.Stop(s.ctx, "test"), "Stop")
		if took := time.Since(began); took > 20*time.Second {
			s.Errorf("Stop took %v", took)
		}
		// Whoever is left still writes: the output would not end, the files would grow.
		first, e := b.finish(w)
		if !e.Started || e.Code != -1 || e.Cause != "stopped" {
			s.Errorf("end %+v", e)
		}
		time.Sleep(200 * time.Millisecond)
		if again, _ := b.finish(w); !bytes.Equal(first, again) {
			s.Errorf("output grew from %d to %d bytes after Stop", len(first), len(again))
		}
		s.must(w.Stop(s.ctx, "again"), "Stop again")
	}},
	{"the command's end ends what it left behind", func(s *suite) {
		b := s.create(ActOrphans)
		first, e := b.run()
		if e.Cause != "exit" || e.Code != 0 || !bytes.Contains(first, []byte("ready")) {
			s.Errorf("end %+v", e)
		}
		time.Sleep(200 * time.Millisecond)
		if again, _ := b.finish(b.connect()); !bytes.Equal(first, again) {
			s.Error("output grew after the end")
		}
	}},
	{"Stop before Start: nothing can start any more", func(s *suite) {
		b := s.create(ActMark)
		w := b.connect()
		s.must(w.Stop(s.ctx, "test"), "Stop")
		_ = w.Start(s.ctx)
		out, e := b.finish(w)
		if e.Started || e.Cause != "stopped" || len(out) != 0 {
			s.Errorf("end %+v, output %q", e, out)
		}
		if _, changes := b.collect(w); len(changes) != 0 {
			s.Errorf("changes %v", changes)
		}
	}},
	{"Stop after the end keeps the end", func(s *suite) {
		b := s.create(ActExit, "5")
		w := b.started()
		b.finish(w)
		s.must(w.Stop(s.ctx, "late"), "Stop")
		if _, e := b.finish(w); e.Cause != "exit" || e.Code != 5 {
			s.Errorf("end %+v", e)
		}
	}},
}

func (s *suite) statusBy() string { return s.caps().StatusBy }

var collectPromises = []promise{
	{"Collect gives adds, edits, deletes, modes and links, and twice the same bytes", func(s *suite) {
		b := s.create(ActEdit)
		w := b.started()
		if out, e := b.finish(w); e.Code != 0 {
			s.Fatalf("%+v %s", e, out)
		}
		first, changes := b.collect(w)
		if !slices.Equal(changes, Edited()) {
			s.Errorf("changes %v, expected %v", changes, Edited())
		}
		w.Close()
		b.auth.Fence++
		again, _ := b.collect(b.connect())
		if !bytes.Equal(first, again) {
			s.Error("the second Collect gave other bytes")
		}
	}},
	{"Collect stops a running command, and still gives its work", func(s *suite) {
		b := s.create(ActLinger)
		w := b.started()
		b.untilReady(w)
		first, changes := b.collect(w)
		if e, err := w.Wait(s.ctx); err != nil || e.Cause != "stopped" {
			s.Errorf("end %+v, %v", e, err)
		}
		if len(changes) > 1 || len(changes) == 1 && !strings.HasPrefix(changes[0], "file ticks ") {
			s.Errorf("changes %v", changes)
		}
		time.Sleep(200 * time.Millisecond)
		if again, _ := b.collect(w); !bytes.Equal(first, again) {
			s.Error("the second Collect gave other bytes")
		}
	}},
	{"Collect by two at once gives both the same", func(s *suite) {
		b := s.create(ActEdit)
		w := b.started()
		b.finish(w)
		var outs [2]bytes.Buffer
		errs := make(chan error, 2)
		for i := range outs {
			go func() { errs <- w.Collect(s.ctx, &outs[i]) }()
		}
		s.must(<-errs, "Collect")
		s.must(<-errs, "Collect")
		if !bytes.Equal(outs[0].Bytes(), outs[1].Bytes()) || outs[0].Len() == 0 {
			s.Errorf("%d and %d bytes", outs[0].Len(), outs[1].Len())
		}
	}},
	{"Collect of what was not made to be collected is CodeUnsupported", func(s *suite) {
		spec, auth := s.newSpec(ActEdit)
		spec.Workspace.Collect = false
		b := s.createFrom(spec, auth)
		w := b.started()
		b.finish(w)
		var out bytes.Buffer
		s.want(w.Collect(s.ctx, &out), sallyport.CodeUnsupported, "Collect")
		if out.Len() > 0 {
			s.Errorf("%d bytes came all the same", out.Len())
		}
	}},
}

var limitPromises = []promise{
	{"the runtime limit ends the command", func(s *suite) {
		s.needs(sallyport.LayerRuntime, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActWait)
		spec.Limits.Time = 400 * time.Millisecond
		_, e := s.createFrom(spec, auth).run()
		if e.Cause != "runtime" || e.Seconds < 0.35 || e.Seconds > 15 {
			s.Errorf("end %+v", e)
		}
	}},
	{"at the runtime limit the end says what was running, in a short line", func(s *suite) {
		s.needs(sallyport.LayerRuntime, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActSleep, "4321")
		spec.Limits.Time = 700 * time.Millisecond
		_, e := s.createFrom(spec, auth).run()
		if e.Cause != "runtime" || !strings.HasPrefix(e.Message, "it was running: ") || !strings.Contains(e.Message, "4321") || len(e.Message) > 1000 || strings.ContainsFunc(e.Message, unicode.IsControl) {
			s.Errorf("end %+v", e)
		}
	}},
	{"the output limit keeps that much and counts the rest", func(s *suite) {
		s.needs(sallyport.LayerOutput, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActPrint, "50000")
		spec.Limits.Output = 100_001
		out, e := s.createFrom(spec, auth).run()
		all := Numbers(50000)
		if !bytes.Equal(out, all[:100_001]) {
			s.Errorf("%d bytes kept, or others than the first", len(out))
		}
		if e.Cause != "exit" || e.Output != 100_001 || e.Dropped != int64(len(all)-100_001) {
			s.Errorf("end %+v", e)
		}
	}},
	{"the disk limit ends the command, and its work can still be asked for", func(s *suite) {
		s.needs(sallyport.LayerDisk, sallyport.LayerHeld, sallyport.LayerWatched)
		spec, auth := s.newSpec(ActDisk)
		spec.Limits.Disk = 16 << 20
		b := s.createFrom(spec, auth)
		w := b.started()
		if _, e := b.finish(w); e.Cause != "disk" || !e.Started {
			s.Errorf("end %+v", e)
		}
		var stream bytes.Buffer
		if err := w.Collect(s.ctx, &stream); err != nil {
			s.want(err, sallyport.CodeExhausted, "Collect of more than the disk limit")
		}
	}},
	{"the memory limit ends the command", func(s *suite) {
		s.needs(sallyport.LayerMemory, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActMemory)
		spec.Limits.Memory = 64 << 20
		if _, e := s.createFrom(spec, auth).run(); e.Cause != "memory" || e.Signal != "SIGKILL" {
			s.Errorf("end %+v", e)
		}
	}},
	{"the pids limit bounds the processes", func(s *suite) {
		s.needs(sallyport.LayerPIDs, sallyport.LayerHeld)
		spec, auth := s.newSpec(ActPIDs, "200")
		spec.Limits.PIDs = 40
		out, e := s.createFrom(spec, auth).run()
		if n := bytes.Count(out, []byte("\n")); n < 1 || n > 40 {
			s.Errorf("%d processes at once with a limit of 40; %+v", n, e)
		}
	}},
}

var leasePromises = []promise{
	{"Renew outside its bounds is CodeInvalid", func(s *suite) {
		w := s.create(ActExit, "0").connect()
		for _, ttl := range []time.Duration{-1, 0, 1000 * time.Hour} {
			s.want(w.Renew(s.ctx, ttl), sallyport.CodeInvalid, "Renew "+ttl.String())
		}
		s.must(w.Renew(s.ctx, time.Minute), "Renew")
	}},
	{"a lease that nobody renews ends the command and keeps the workspace", func(s *suite) {
		spec, auth := s.newSpec(ActLinger)
		spec.LeaseTTL, spec.Hold = time.Second, time.Minute
		b := s.createFrom(spec, auth)
		w := b.started()
		b.untilReady(w)
		_, e := b.finish(w)
		if e.Cause != "lease" || e.Seconds > 30 {
			s.Errorf("end %+v", e)
		}
		b.auth.Fence++
		if _, changes := b.collect(b.connect()); len(changes) != 1 || !strings.HasPrefix(changes[0], "file ticks ") {
			s.Errorf("changes %v", changes)
		}
	}},
	{"a lease that ends before Start: nothing can start any more", func(s *suite) {
		spec, auth := s.newSpec(ActMark)
		spec.LeaseTTL, spec.Hold = 300*time.Millisecond, time.Minute
		b := s.createFrom(spec, auth)
		w := b.connect()
		e, err := w.Wait(s.ctx)
		s.must(err, "Wait")
		_ = w.Start(s.ctx)
		if out, again := b.finish(w); e.Started || e.Cause != "lease" || again != e || len(out) > 0 {
			s.Errorf("end %+v, then %+v, output %q", e, again, out)
		}
	}},
	{"Renew keeps the command alive", func(s *suite) {
		spec, auth := s.newSpec(ActDrip, "200") // about 2 s and more
		spec.LeaseTTL = time.Second
		b := s.createFrom(spec, auth)
		w := b.started()
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				_ = w.Renew(ctx, time.Second)
				time.Sleep(100 * time.Millisecond)
			}
		}()
		if out, e := b.finish(w); e.Cause != "exit" || !bytes.Equal(out, Numbers(200)) {
			s.Errorf("end %+v", e)
		}
	}},
}

var terminalPromises = []promise{
	{"a terminal takes input, echoes it and knows its size", func(s *suite) {
		spec, auth := s.newSpec(ActTerminal)
		spec.Command.Terminal = true
		b := s.createFrom(spec, auth)
		w := b.started()
		b.untilReady(w)
		s.must(w.Resize(s.ctx, 101, 43), "Resize")
		s.must(w.Input(s.ctx, []byte("hello\n")), "Input")
		b.until(w, "got hello")
		s.must(w.Input(s.ctx, []byte("end\n")), "Input")
		out, e := b.finish(w)
		if e.Code != 0 || !strings.Contains(string(out), "hello\r\ngot hello\r\n") || !strings.Contains(string(out), "43 101") {
			s.Errorf("end %+v, output %q", e, out)
		}
		for _, size := range [][2]int{{0, 1}, {1, 0}, {-1, 5}, {1 << 20, 5}} {
			if err := w.Resize(s.ctx, size[0], size[1]); err != nil {
				s.want(err, sallyport.CodeInvalid, "Resize")
			}
		}
	}},
	{"Input without a terminal is CodeUnsupported", func(s *suite) {
		b := s.create(ActWait)
		w := b.started()
		b.untilReady(w)
		s.want(w.Input(s.ctx, []byte("x")), sallyport.CodeUnsupported, "Input")
	}},
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

var egressPromises = []promise{
	{"Egress hands out the sandbox's listening socket, again after a reconnect", func(s *suite) {
		if !s.caps().Egress {
			s.Skip("missing capability: no listening socket is handed out")
		}
		const port = 18080
		spec, auth := s.newSpec(ActDial, strconv.Itoa(port))
		spec.EgressPort = port
		b := s.createFrom(spec, auth)
		first, err := b.connect().Egress(s.ctx)
		s.must(err, "Egress")
		closeFiles(first)
		b.auth.Fence++
		w := b.connect()
		f, err := w.Egress(s.ctx)
		s.must(err, "Egress")
		answered := make(chan error, 1)
		defer closeFiles(f[1:])
		go func() { answered <- answer(f[0]) }()
		s.must(w.Start(s.ctx), "Start")
		if out, e := b.finish(w); string(out) != "pong\n" || e.Code != 0 {
			s.Errorf("end %+v, output %q", e, out)
		}
		s.must(<-answered, "serve the socket")
	}},
	{"a redirect hands out a second socket, and leads to them what is meant for others; or Create is CodeUnsupported", func(s *suite) {
		const port = 18082
		spec, auth := s.newSpec(ActDial, strconv.Itoa(port))
		spec.EgressPort, spec.Redirect = port, true
		if !s.caps().Redirect {
			_, err := s.p.Create(s.ctx, spec)
			s.want(err, sallyport.CodeUnsupported, "Create")
			return
		}
		b := s.createFrom(spec, auth)
		f, err := b.connect().Egress(s.ctx)
		s.must(err, "Egress")
		defer closeFiles(f)
		if len(f) != 2 {
			s.Fatalf("%d sockets", len(f))
		}
		layers, err := b.connect().Layers(s.ctx)
		s.must(err, "Layers")
		for _, l := range layers {
			if l.Layer == sallyport.LayerNetwork && (l.Status != sallyport.LayerHeld || l.Grade != sallyport.GradeProbe) {
				s.Errorf("%+v", l)
			}
		}
	}},
	{"Egress where none was asked for is CodeUnsupported", func(s *suite) {
		_, err := s.create(ActExit, "0").connect().Egress(s.ctx)
		s.want(err, sallyport.CodeUnsupported, "Egress")
	}},
}
