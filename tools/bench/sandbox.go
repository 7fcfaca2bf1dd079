package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local"
)

// factory is a local provider without a Mission Control.
type factory struct {
	*local.Provider
	id sallyport.FactoryID
}

func (b *bench) factory(name string) (*factory, error) {
	raw, err := id.New(sallyport.FactoryPrefix)
	if err != nil {
		return nil, err
	}
	f := sallyport.FactoryID(raw)
	p, err := local.Open(local.Config{Factory: f, Folder: filepath.Join(b.dir, name), Keeper: filepath.Join(b.programs, "sallyport-keeper"), Runner: filepath.Join(b.programs, "sallyport-runner")})
	return &factory{p, f}, err
}

// systemMounts are what bare system programs need.
func systemMounts() (ms []sallyport.Mount) {
	for _, m := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"} {
		ms = append(ms, sallyport.Mount{Path: m, Mode: "ro", Reason: "system"})
	}
	return ms
}

// spec requires every layer that is required by default.
func (f *factory) spec(ws provider.Workspace, mounts []sallyport.Mount, home string, cmd provider.Command) (provider.Spec, provider.Auth, error) {
	var ids [2]string
	for i, prefix := range []string{sallyport.AllocationPrefix, sallyport.AttemptPrefix} {
		var err error
		if ids[i], err = id.New(prefix); err != nil {
			return provider.Spec{}, provider.Auth{}, err
		}
	}
	secret, err := id.Secret()
	if err != nil {
		return provider.Spec{}, provider.Auth{}, err
	}
	return provider.Spec{Factory: f.id, Allocation: sallyport.AllocationID(ids[0]), Attempt: sallyport.AttemptID(ids[1]), Purpose: sallyport.PurposeExecute,
		SecretSum: sallyport.Sum([]byte(secret)), Workspace: ws, Mounts: mounts, Home: home, Command: cmd,
		Limits:  sallyport.Limits{Time: 10 * time.Minute, Memory: 4 << 30, PIDs: 4096, Disk: 10 << 30, Output: 64 << 20},
		Require: sallyport.RequiredLayers(), LeaseTTL: 15 * time.Minute, Hold: time.Hour}, provider.Auth{Secret: secret, Fence: 1}, nil
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
