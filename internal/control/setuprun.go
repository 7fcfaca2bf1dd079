package control

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/setup"
	"sallyport.dev/sallyport/internal/toolchain"
)

// setupOut is what came of a setup command beside its end and what it wrote.
type setupOut struct {
	totals  *sallyport.EgressTotals
	refused []sallyport.Refusal
	notices []string
}

// runSetupIn runs a command in a sandbox of its own. The way out is open from before its start until it has ended,
// and the sandbox is gone when this returns: nothing of it is alive when something else starts.
func (d *driver) runSetupIn(ctx context.Context, o setupOrder, layer, log string) (exit provider.Exit, out setupOut, err error) {
	ws, co, err := d.workspace(ctx, o.tree)
	if err != nil {
		return exit, out, err
	}
	caches, err := d.caches("")
	if err != nil {
		return exit, out, err
	}
	caches = d.setupCaches(o.below, caches)
	if len(o.below.folders) == 0 {
		caches = append(caches, provider.Cache{Path: d.m.Home, Layers: []string{}})
	}
	for i := range caches {
		name := fmt.Sprint("cache", i)
		if caches[i].Path == d.m.Home {
			name = "home"
		}
		caches[i].Keep = filepath.Join(layer, name)
	}
	ws.Beside, ws.Keep, ws.Collect = o.below.beside(), filepath.Join(layer, "workspace"), true
	for _, dir := range append([]provider.Cache{{Keep: ws.Keep}}, caches...) {
		if err := os.MkdirAll(dir.Keep, 0o711); err != nil {
			return exit, out, stateError(dir.Keep, err)
		}
	}
	limits := d.m.Limits
	limits.Time = o.Timeout
	env := toolchain.Online(d.environment(map[string]string{"CI": "true"}))
	if o.kind == "change" {
		maps.Copy(env, setup.Restraint(o.Run))
	}
	way := setupWay{d: d, rules: o.Egress}
	port := 0
	// One that learns hears what is refused also where all is.
	leaves := len(o.Egress) > 0 || d.m.Learn
	if way.redirect, err = d.redirects(ctx, leaves); err != nil {
		return exit, out, err
	}
	if leaves {
		if port = proxyPort; !way.redirect {
			maps.Copy(env, proxyVariables(port))
		}
	}
	var files []provider.File
	if d.m.Learn || readsTLS(d.m, o.Egress) {
		if way.seed, err = id.Secret(); err != nil {
			return exit, out, err
		}
		more, told, err := trusting(way.seed, d.m.Path)
		if err != nil {
			return exit, out, err
		}
		files = more
		maps.Copy(env, told)
	}
	spec := provider.Spec{Purpose: sallyport.PurposeSetup, Workspace: ws, Mounts: d.m.Mounts, Caches: caches, Home: d.m.Home, Limits: limits, EgressPort: port, Redirect: way.redirect,
		Command: provider.Command{Argv: []string{"sh", "-c", o.Run}, Dir: filepath.Join(d.m.Repository, o.Dir), Env: env, Files: files}}
	defer way.close()
	exit, err = d.runOnce(ctx, spec, co, "setup "+fmt.Sprint(o.number), log, way.open, func(w provider.Wire, e provider.Exit) error {
		way.close()
		if e.Cause != "exit" || e.Code != 0 {
			return nil
		}
		out.notices, err = d.leftBySetup(ctx, w, o)
		return err
	})
	out.totals, out.refused = way.heard(o.number)
	return exit, out, err
}

// setupWay is a setup command's way out.
type setupWay struct {
	d        *driver
	rules    []sallyport.EgressRule
	redirect bool
	seed     string // of its authority; "": no rule has to be read
	server   *gateway.Server
}

// open serves the rules on the listening socket that the sandbox handed out. Repeat, after a cut wire: it is open.
func (s *setupWay) open(ctx context.Context, w provider.Wire) error {
	if len(s.rules) == 0 && !s.d.m.Learn || s.server != nil {
		return nil
	}
	c, err := proxyConfig(s.d.m, s.rules, s.seed)
	if err != nil {
		return err
	}
	files, err := w.Egress(ctx)
	if err != nil {
		return err
	}
	ln, questions, err := listenOn(files, proxyPort, s.redirect)
	if err != nil {
		return err
	}
	c.Questions, c.Learn = questions, s.d.m.Learn // its sandbox has this one driver
	// Not the wire's context: that ends with each cut.
	if s.server, err = gateway.Serve(context.WithoutCancel(ctx), ln, gateway.Config{Proxy: c}); err == nil {
		return nil
	}
	_ = ln.Close()
	if questions != nil {
		_ = questions.Close()
	}
	return err
}

func (s *setupWay) close() {
	if s.server != nil {
		s.server.Close()
	}
}

// heard is what went through and what did not, once it is closed.
func (s *setupWay) heard(number int) (*sallyport.EgressTotals, []sallyport.Refusal) {
	if s.server == nil {
		return nil, nil
	}
	n := s.server.Counters()
	var refused []sallyport.Refusal
	for _, r := range s.server.Denied() {
		f := refusalOf(r, r.Count)
		f.Stage = fmt.Sprintf("setup %d", number)
		refused = append(refused, f)
	}
	return &sallyport.EgressTotals{Requests: n.Requests, Refused: n.Refused, BytesUp: n.BytesUp, BytesDown: n.BytesDown}, refused
}

// leftBySetup says what a command left that a person would not expect: files of the tree that it changed, which
// are shown as the tree has them, and files that git does not ignore, which the agent and the checks see and no
// change holds. What is ignored is what setup is for.
func (d *driver) leftBySetup(ctx context.Context, w provider.Wire, o setupOrder) ([]string, error) {
	paths, err := d.store.Paths(ctx, o.tree)
	if err != nil {
		return nil, err
	}
	tree := map[string]bool{}
	for p := range paths {
		tree[p] = true
	}
	r, in := io.Pipe()
	sent := make(chan error, 1)
	go func() { err := w.Collect(ctx, in); sent <- err; in.CloseWithError(err) }()
	ours, made, err := sortLeft(collect.NewReader(r, collect.DefaultLimits()), tree)
	r.Close()
	if failed := <-sent; failed != nil && (err == nil || sallyport.CodeOf(failed) == sallyport.CodeExhausted) {
		err = failed
	}
	say := func(format string, args ...any) string {
		return screen.Line(fmt.Sprintf("setup: %s: ", short(o.Run)) + fmt.Sprintf(format, args...))
	}
	if sallyport.CodeOf(err) == sallyport.CodeExhausted {
		return []string{say("it left more than can be looked through: %s", messageOf(err))}, nil
	}
	var notices []string
	if len(ours) > 0 {
		notices = append(notices, say("it changed %s; what follows sees them as the base has them", list(ours, 3)))
	}
	if len(made) > 0 {
		notices = append(notices, say("it made files that git does not ignore; agent and checks see them, the change does not hold them: %s", list(made, 3)))
	}
	return notices, err
}

func sortLeft(stream *collect.Reader, tree map[string]bool) (ours, made []string, err error) {
	for {
		rec, err := stream.Next()
		if err == io.EOF {
			return ours, made, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch {
		case rec.Path == "":
		case tree[rec.Path] || rec.Kind == collect.KindDelete:
			ours = append(ours, rec.Path)
		default:
			made = append(made, rec.Path)
		}
	}
}
