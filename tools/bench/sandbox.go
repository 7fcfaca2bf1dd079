package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/tools/sandbox"
)

// factory is a local provider without a Mission Control.
type factory struct{ *sandbox.Factory }

func (b *bench) factory(name string) (*factory, error) {
	f, err := sandbox.New(filepath.Join(b.dir, name), b.programs)
	return &factory{f}, err
}

// lap is what is measured of one sandbox.
type lap struct {
	create, connect, start time.Duration // each by itself
	first                  time.Duration // from before Create to the first byte of output
	command                time.Duration // from before Start to the command's recorded end
	whole                  time.Duration // from before Create to the command's recorded end
	destroy                time.Duration // until its absence is proved
}

// use makes a sandbox, has its command run, and removes it. A status other than 0 is an error.
func (f *factory) use(ctx context.Context, spec provider.Spec, auth provider.Auth) (l lap, err error) {
	began := time.Now()
	rid, err := f.Create(ctx, spec)
	if err != nil {
		return l, err
	}
	l.create = time.Since(began)
	defer func() {
		t := time.Now()
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if derr := f.Destroy(dctx, rid); err == nil {
			err = derr
		}
		if _, lerr := f.Lookup(dctx, rid); err == nil && sallyport.CodeOf(lerr) != sallyport.CodeNotFound {
			err = fmt.Errorf("still there: %v", lerr)
		}
		l.destroy = time.Since(t)
	}()
	t := time.Now()
	w, err := f.Connect(ctx, rid, auth)
	if err != nil {
		return l, err
	}
	defer w.Close()
	l.connect = time.Since(t)
	out := &stopwatch{began: began}
	copied := make(chan error, 1)
	go func() {
		_, err := w.Output(ctx, 0, out)
		copied <- err
	}()
	t = time.Now()
	if err := w.Start(ctx); err != nil {
		return l, err
	}
	l.start = time.Since(t)
	exit, err := w.Wait(ctx)
	l.command, l.whole = time.Since(t), time.Since(began)
	if cerr := <-copied; err == nil {
		err = cerr
	}
	if err == nil && (exit.Cause != "exit" || exit.Code != 0) {
		err = fmt.Errorf("the command ended with %+v\n%s", exit, out.said.Bytes())
	}
	l.first = out.first
	return l, err
}

// stopwatch notes when the first byte comes.
type stopwatch struct {
	began time.Time

	mu    sync.Mutex
	first time.Duration
	said  bytes.Buffer
}

func (s *stopwatch) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = time.Since(s.began)
	}
	return s.said.Write(p)
}
