package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

var connectPromises = []promise{
	{"Connect with a wrong secret is CodeDenied", func(s *suite) {
		b := s.create(ActExit, "0")
		for _, secret := range []string{"", "wrong", b.auth.Secret + "x", string(b.spec.SecretSum)} {
			_, err := s.p.Connect(s.ctx, b.id, provider.Auth{Secret: secret, Fence: b.auth.Fence + 7})
			s.want(err, sallyport.CodeDenied, "Connect")
		}
		b.connect() // a refused one has not raised the fence
	}},
	{"Connect with a lower fence is CodeFenced", func(s *suite) {
		b := s.create(ActExit, "0")
		high := b.auth
		high.Fence += 5
		w, err := s.p.Connect(s.ctx, b.id, high)
		s.must(err, "Connect")
		defer w.Close()
		_, err = s.p.Connect(s.ctx, b.id, b.auth)
		s.want(err, sallyport.CodeFenced, "Connect")
		if _, err := w.Layers(s.ctx); err != nil {
			s.Errorf("a fenced Connect ended the holder's wire: %v", err)
		}
		b.auth = high
		b.connect() // an equal fence is the same holder
	}},
	{"a second Connect ends the first", func(s *suite) {
		b := s.create(ActWait)
		first := b.started()
		b.untilReady(first)
		ended := make(chan error, 1)
		go func() { _, err := first.Wait(s.ctx); ended <- err }()
		b.auth.Fence++
		second := b.connect()
		select {
		case err := <-ended:
			s.want(err, sallyport.CodeUnavailable, "Wait on the first wire")
		case <-time.After(10 * time.Second):
			s.Fatal("the first wire still serves")
		}
		s.want(first.Stop(s.ctx, "no longer mine"), sallyport.CodeUnavailable, "Stop on the first wire")
		ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
		defer cancel()
		_, err := second.Wait(ctx)
		s.want(err, sallyport.CodeUnknown, "Wait: the command should still run")
	}},
	{"Close twice, and calls after it", func(s *suite) {
		w := s.create(ActExit, "0").connect()
		s.must(w.Close(), "Close")
		s.must(w.Close(), "Close again")
		s.want(w.Start(s.ctx), sallyport.CodeUnavailable, "Start on a closed wire")
	}},
}

var startPromises = []promise{
	{"nothing runs before Start", func(s *suite) {
		b := s.create(ActMark)
		w := b.connect()
		ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		n, err := w.Output(ctx, 0, &out)
		s.want(err, sallyport.CodeUnknown, "Output before Start")
		if n != 0 || out.Len() != 0 {
			s.Errorf("output before Start: %q", out.String())
		}
		if _, changes := b.collect(w); len(changes) != 0 {
			s.Errorf("changes before Start: %v", changes)
		}
	}},
	{"Start twice runs once", func(s *suite) {
		b := s.create(ActMark)
		w := b.connect()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := w.Start(s.ctx); err != nil {
					s.Errorf("Start: %v", err)
				}
			})
		}
		wg.Wait()
		b.finish(w)
		w.Close()
		w = b.connect()
		s.must(w.Start(s.ctx), "Start after the end")
		if out, _ := b.finish(w); string(out) != "ran\n" {
			s.Errorf("it ran more than once: %q", out)
		}
		if _, changes := b.collect(w); len(changes) != 1 || changes[0] != `file ran.txt 100644 "ran\n"` {
			s.Errorf("changes %v", changes)
		}
	}},
	{"the environment is exactly the spec's", func(s *suite) {
		spec, auth := s.newSpec(ActEnv)
		spec.Command.Env["SUITE_WORD"] = "two words"
		out, _ := s.createFrom(spec, auth).run()
		want := ""
		for _, kv := range sortedEnv(spec.Command.Env) {
			want += kv + "\n"
		}
		var got []string
		for _, l := range bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")) {
			// What a shell itself sets is no inheritance.
			if k, _, _ := bytes.Cut(l, []byte("=")); string(k) != "PWD" && string(k) != "OLDPWD" && string(k) != "SHLVL" && string(k) != "_" {
				got = append(got, string(l)+"\n")
			}
		}
		if joined := fmt.Sprint(got); joined != fmt.Sprint(splitLines(want)) {
			s.Errorf("environment %v, expected %v", got, splitLines(want))
		}
	}},
	{"a program that is not there: not started, with a message", func(s *suite) {
		b := s.create(ActMissing)
		out, e := b.run()
		if e.Started || e.Code != -1 || e.Cause != "start" || !bytes.Contains([]byte(e.Message), []byte(MissingProgram)) || len(out) != 0 {
			s.Errorf("%+v, output %q", e, out)
		}
		if _, changes := b.collect(b.connect()); len(changes) != 0 {
			s.Errorf("changes %v", changes)
		}
	}},
}

var outputPromises = []promise{
	{"Output by offset is byte-exact after cuts in the middle", func(s *suite) {
		const n = 200_000 // about 1.3 MB
		b := s.create(ActPrint, strconv.Itoa(n))
		w := b.started()
		var got bytes.Buffer
		var offset int64
		cuts := 0
		for {
			cutter := &cutter{w: &got, after: 100_000 + 37_123*cuts, cut: func() { w.Close() }}
			next, err := w.Output(s.ctx, offset, cutter)
			if next != int64(got.Len()) {
				s.Fatalf("Output says %d, %d bytes came", next, got.Len())
			}
			offset = next
			if err == nil {
				break
			}
			if cuts++; cuts > 100 {
				s.Fatalf("no progress: %v", err)
			}
			b.auth.Fence++
			w = b.connect()
		}
		if cuts < 3 {
			s.Errorf("only %d cuts", cuts)
		}
		if !bytes.Equal(got.Bytes(), Numbers(n)) {
			s.Errorf("%d bytes differ from the %d that were written", got.Len(), len(Numbers(n)))
		}
	}},
	{"Output follows a slow command, for two readers", func(s *suite) {
		b := s.create(ActDrip, "100")
		w := b.started()
		var outs [2]bytes.Buffer
		var wg sync.WaitGroup
		for i := range outs {
			wg.Go(func() {
				if _, err := w.Output(s.ctx, 0, &outs[i]); err != nil {
					s.Errorf("Output: %v", err)
				}
			})
		}
		wg.Wait()
		for i := range outs {
			if !bytes.Equal(outs[i].Bytes(), Numbers(100)) {
				s.Errorf("reader %d got %q", i, outs[i].String())
			}
		}
	}},
	{"Output from the end and from within", func(s *suite) {
		b := s.create(ActPrint, "1000")
		w := b.started()
		all, _ := b.finish(w)
		for _, off := range []int64{1, 17, int64(len(all)) - 1, int64(len(all))} {
			var out bytes.Buffer
			next, err := w.Output(s.ctx, off, &out)
			s.must(err, "Output")
			if next != int64(len(all)) || !bytes.Equal(out.Bytes(), all[off:]) {
				s.Errorf("from %d: next %d, %d bytes", off, next, out.Len())
			}
		}
		var out bytes.Buffer
		_, err := w.Output(s.ctx, -1, &out)
		s.want(err, sallyport.CodeInvalid, "Output from -1")
	}},
	{"Output whose writer fails returns what was taken", func(s *suite) {
		b := s.create(ActPrint, "20000")
		w := b.started()
		b.finish(w)
		next, err := w.Output(s.ctx, 0, failing{})
		if err == nil || next != 3 {
			s.Errorf("next %d, error %v", next, err)
		}
		if _, err := w.Layers(s.ctx); err != nil {
			s.Errorf("the wire did not survive: %v", err)
		}
	}},
	{"a caller that stops waiting gets CodeUnknown and nothing else ends", func(s *suite) {
		b := s.create(ActWait)
		w := b.started()
		b.untilReady(w)
		for _, call := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"Wait", func(ctx context.Context) error { _, err := w.Wait(ctx); return err }},
			{"Output", func(ctx context.Context) error { _, err := w.Output(ctx, 0, &bytes.Buffer{}); return err }},
		} {
			for _, d := range []time.Duration{0, 50 * time.Millisecond} {
				ctx, cancel := context.WithTimeout(s.ctx, d)
				began := time.Now()
				s.want(call.do(ctx), sallyport.CodeUnknown, call.name)
				cancel()
				if took := time.Since(began); took > 5*time.Second {
					s.Errorf("%s held its caller for %v", call.name, took)
				}
			}
		}
		s.must(w.Stop(s.ctx, "test"), "Stop")
	}},
}

// failing takes three bytes.
type failing struct{}

func (failing) Write(p []byte) (int, error) { return 3, errors.New("the reader went away") }

// cutter cuts the wire once after bytes have come by.
type cutter struct {
	w     *bytes.Buffer
	seen  int
	after int
	cut   func()
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	before := c.seen
	c.seen += n
	if before < c.after && c.seen >= c.after {
		c.cut()
	}
	return n, err
}
