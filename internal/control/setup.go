package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/setup"
)

// Setup commands run before the agent, each in a sandbox of its own from the base's files, with a way out of its
// own. What one wrote is a layer that the next command, the agent and the checks are shown, below the tree: what
// the tree has is never the setup's. It is run once per base, command and toolchain and kept. What an agent wrote
// is never in it; of a change only edited lock files and the manifests that belong to them are, and then only a
// command runs that runs nothing of what they bring.

// laid is what setup commands left, as a sandbox is shown it; zero: nothing.
type laid struct {
	folders []string         // one per command, the last one first
	stale   string           // why this is the base's although the change edits lock files; "": it is not
	key     sallyport.Digest // names all of it; "": nothing was laid
}

// beside are the layers below the tree.
func (l laid) beside() []string { return l.each("workspace") }

func (l laid) each(name string) []string {
	var out []string
	for _, f := range l.folders {
		out = append(out, filepath.Join(f, name, "upper"))
	}
	return out
}

// setups is what a driver knows of setups.
type setups struct {
	mu    sync.Mutex // one runs at a time
	known map[sallyport.ObjectID]laid
}

// setupPlan says what runs for a tree.
type setupPlan struct {
	first  int                // from here on commands run without scripts; len(m.Setup): none does
	tree   sallyport.ObjectID // the base with the edited lock files and their manifests
	locks  []string           // edited
	stale  string             // why nothing can be run from them
	pinned map[string]bool    // files that the change has and tree as well
}

// planSetup compares a tree's lock files with the base's.
func (d *driver) planSetup(ctx context.Context, tree sallyport.ObjectID) (setupPlan, error) {
	p := setupPlan{first: len(d.m.Setup), tree: d.m.BaseTree}
	if tree == d.m.BaseTree || len(d.m.Setup) == 0 {
		return p, nil
	}
	changes, err := d.store.Diff(ctx, d.m.BaseTree, tree)
	if err != nil {
		return p, err
	}
	for i, s := range d.m.Setup {
		for _, c := range changes {
			if slices.Contains(s.Locks, c.Path) {
				p.first = min(p.first, i)
				if !slices.Contains(p.locks, c.Path) {
					p.locks = append(p.locks, c.Path)
				}
			}
		}
	}
	if p.first == len(d.m.Setup) {
		return p, nil
	}
	for i, s := range d.m.Setup[p.first:] {
		if s.WithoutScripts == "" {
			// A later command would run what an earlier one installed, with a way out.
			p.stale = fmt.Sprintf("nothing says how setup command %d (%s) runs without scripts", p.first+i+1, short(s.Run))
			return p, nil
		}
	}
	p.pinned = map[string]bool{}
	var paths []string
	for _, c := range changes {
		if slices.ContainsFunc(p.locks, func(l string) bool { return setup.Belongs(l, c.Path) }) {
			paths, p.pinned[c.Path] = append(paths, c.Path), true
		}
	}
	if p.stale, err = d.otherManager(ctx, tree, paths); err != nil || p.stale != "" {
		return p, err
	}
	p.tree, err = d.store.Compose(ctx, d.m.BaseTree, tree, paths)
	return p, err
}

// otherManager says which of a change's files names another package manager than the base's, "" if none does.
func (d *driver) otherManager(ctx context.Context, tree sallyport.ObjectID, paths []string) (string, error) {
	const most = 1 << 20
	for _, p := range paths {
		if path.Base(p) != "package.json" {
			continue
		}
		var both [2][]byte
		for i, t := range []sallyport.ObjectID{d.m.BaseTree, tree} {
			b, err := d.store.File(ctx, t, p, most)
			switch sallyport.CodeOf(err) {
			case sallyport.CodeNotFound: // it names none
			case sallyport.CodeInvalid, sallyport.CodeExhausted:
				return screen.Line(p) + " cannot be read", nil
			default:
				if err != nil {
					return "", err
				}
				both[i] = b
			}
		}
		if !setup.SameManager(both[0], both[1]) {
			return screen.Line(p) + " names another package manager than the base's", nil
		}
	}
	return "", nil
}

// setUp is what setup commands leave for a tree, run where nobody has yet. Of a tree that is not the base's counts
// the change that it was made of. An error with reason "setup": a command failed on the base.
func (d *driver) setUp(ctx context.Context, tree sallyport.ObjectID) (laid, error) {
	if len(d.m.Setup) == 0 {
		return laid{}, nil
	}
	if tree != d.m.BaseTree {
		at, err := d.attempt(ctx)
		if err != nil {
			return laid{}, err
		}
		switch {
		case at.Imported == nil:
			tree = at.StartTree
		case inspect.Worst(at.Report.Findings) == sallyport.SeverityBlock:
			tree = d.m.BaseTree // nothing is run from such a change
		default:
			tree = at.Imported.Tree
		}
	}
	plan, err := d.planSetup(ctx, tree)
	if err != nil {
		return laid{}, err
	}
	if len(plan.locks) == 0 {
		tree = d.m.BaseTree // the same for both
	}
	d.setups.mu.Lock()
	defer d.setups.mu.Unlock()
	if l, ok := d.setups.known[tree]; ok {
		return l, nil
	}
	l, err := d.setUpAll(ctx, plan)
	if err != nil {
		return l, err
	}
	if d.setups.known == nil {
		d.setups.known = map[sallyport.ObjectID]laid{}
	}
	d.setups.known[tree] = l
	return l, nil
}

func (d *driver) setUpAll(ctx context.Context, plan setupPlan) (laid, error) {
	stale := plan.stale
	if plan.first < len(d.m.Setup) && stale == "" {
		l, failed, err := d.setUpChain(ctx, plan)
		if err != nil || failed == nil {
			return l, err
		}
		stale = "setup from the change's lock files failed: " + failureOf(*failed)
		if err := d.notice(ctx, "%s", screen.Line(stale)); err != nil {
			return laid{}, err
		}
	}
	l, failed, err := d.setUpChain(ctx, setupPlan{first: len(d.m.Setup), tree: d.m.BaseTree})
	if err == nil && failed != nil {
		err = because("setup", fmt.Sprintf("its last lines are below, all of it is in %s; `sallyport retry %s` tries again", d.logPath(failed.Log), screen.Short(d.id)), "%s", failureOf(*failed))
	}
	l.stale = stale
	return l, err
}

func failureOf(r sallyport.SetupResult) string {
	text := fmt.Sprintf("setup: %s: %s", short(r.Run), r.Message)
	if r.Egress != nil && r.Egress.Refused > 0 {
		text += fmt.Sprintf("; refused a way out: %d", r.Egress.Refused)
	}
	return text
}

// short is a command at a glance.
func short(run string) string { return screen.Fit(screen.Line(run), 60) }

// setUpChain is the commands' work in order; failed is the one that ended it.
func (d *driver) setUpChain(ctx context.Context, plan setupPlan) (l laid, failed *sallyport.SetupResult, err error) {
	for i := range d.m.Setup {
		o := setupOrder{Setup: d.m.Setup[i], number: i + 1, kind: "base", tree: d.m.BaseTree, below: l}
		if i >= plan.first {
			o.kind, o.tree, o.Run, o.locks = "change", plan.tree, o.WithoutScripts, plan.locks
		}
		r, err := d.setUpOne(ctx, o)
		if err != nil || r.Status != sallyport.SetupDone {
			return laid{}, &r, err
		}
		dir, err := d.setupFolder(ctx, o)
		if err != nil {
			return laid{}, nil, err
		}
		l = laid{folders: append([]string{filepath.Join(dir, r.Left)}, l.folders...), key: sallyport.Sum([]byte(string(l.key) + "\x00" + dir + "\x00" + r.Left))}
	}
	return l, nil, nil
}

// setupOrder is one command to run, over what those before it left.
type setupOrder struct {
	sallyport.Setup
	number int
	kind   string // "base" or "change"
	tree   sallyport.ObjectID
	locks  []string
	below  laid
}

// setupFolder holds what a command left: its name is a digest of all that the result depends on.
func (d *driver) setupFolder(ctx context.Context, o setupOrder) (string, error) {
	type tool struct {
		Path, Mode string
		MTime      int64
	}
	var tools []tool
	for _, m := range d.m.Mounts {
		t := tool{Path: m.Path, Mode: m.Mode}
		var st unix.Stat_t
		// A cache changes whenever somebody on the host fetches something: another result is not worth a new run.
		if m.Reason != "system" && m.Mode == "ro" && unix.Lstat(m.Path, &st) == nil {
			t.MTime = st.Mtim.Nano()
		}
		tools = append(tools, t)
	}
	subs, err := d.store.Submodules(ctx, d.m.BaseTree)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		By         string
		Base, Tree sallyport.ObjectID
		Repo, Home string
		Run, Dir   string
		Egress     []sallyport.EgressRule
		Resolve    map[string]string
		Below      sallyport.Digest
		Tools      []tool
		Path       []string
		Env        map[string]string
		Submodules any
	}{Version, d.m.BaseTree, o.tree, d.m.Repository, d.m.Home, o.Run, o.Dir, o.Egress, d.m.Resolve, o.below.key, tools, d.m.Path, d.m.Env, subs})
	return filepath.Join(d.c.cfg.State, "setup", sallyport.Sum(b).Hex()), err
}

// keptSetup is the record beside a layer. It is what makes the layer count.
type keptSetup struct {
	Attempt sallyport.AttemptID   `json:"attempt"`
	Result  sallyport.SetupResult `json:"result"`
}

const setupRecord = "result.json"

// keptSetup is what is kept in dir; nil: nothing. To be used is to be kept longer.
func (d *driver) keptSetup(dir string) (*keptSetup, error) {
	path := filepath.Join(dir, setupRecord)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var k keptSetup
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return nil, stateError(path, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, k.Result.Left, "workspace", "upper")); os.IsNotExist(err) {
		return nil, os.Remove(path) // somebody made room: it is run again
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now)
	return &k, nil
}

// setUpOne runs a command, or finds that somebody has.
func (d *driver) setUpOne(ctx context.Context, o setupOrder) (sallyport.SetupResult, error) {
	dir, err := d.setupFolder(ctx, o)
	if err != nil {
		return sallyport.SetupResult{}, err
	}
	k, err := d.keptSetup(dir)
	if err != nil {
		return sallyport.SetupResult{}, err
	}
	if k == nil {
		return d.runSetup(ctx, o, dir)
	}
	before, err := d.toldSetup(ctx, o)
	if err != nil {
		return sallyport.SetupResult{}, err
	}
	if before.Status == sallyport.SetupDone && before.Left == k.Result.Left {
		return before, nil // its own record says more
	}
	r := k.Result
	r.Number, r.Locks = o.number, o.locks
	if k.Attempt != d.id { // else a driver that died before it could record it
		r.Reused, r.Log, r.Cut = k.Attempt, "", cutShort(before)
	}
	return r, d.tellSetup(ctx, r)
}

// toldSetup is where the journal says that a command stands; zero: nowhere.
func (d *driver) toldSetup(ctx context.Context, o setupOrder) (sallyport.SetupResult, error) {
	at, err := d.attempt(ctx)
	for _, r := range at.Report.Setup {
		if r.Number == o.number && r.For == o.kind {
			return r, err
		}
	}
	return sallyport.SetupResult{}, err
}

// cutShort counts the runs up to before that a driver's end cut short.
func cutShort(before sallyport.SetupResult) int {
	if before.Status == sallyport.SetupRunning {
		return before.Cut + 1
	}
	return before.Cut
}

// tellSetup records where a command stands. Beside an ended Attempt nothing is: its evidence stays as it is.
func (d *driver) tellSetup(ctx context.Context, r sallyport.SetupResult, more ...journal.Record) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.State.Ended() {
		return err
	}
	if !slices.ContainsFunc(at.Report.Setup, func(x sallyport.SetupResult) bool { return reflect.DeepEqual(x, r) }) {
		more = append([]journal.Record{{Type: lifecycle.AttemptSetup, Data: r}}, more...)
	}
	if len(more) == 0 {
		return nil
	}
	return d.record(ctx, more...)
}

// runSetup runs a command and keeps what it left.
func (d *driver) runSetup(ctx context.Context, o setupOrder, dir string) (r sallyport.SetupResult, err error) {
	if d.isCancelled() {
		return r, errCancelled
	}
	left, err := id.New("layer")
	if err != nil {
		return r, err
	}
	layer := filepath.Join(dir, left)
	defer func() {
		if r.Left != left { // a crash leaves it to gc
			_ = removeLayer(layer)
		}
	}()
	r = sallyport.SetupResult{Number: o.number, For: o.kind, Run: o.Run, Dir: o.Dir, Locks: o.locks, Status: sallyport.SetupRunning, Exit: -1, Log: d.setupLog(o)}
	before, err := d.toldSetup(ctx, o)
	if err != nil {
		return r, err
	}
	r.Cut = cutShort(before)
	if err := d.tellSetup(ctx, r); err != nil {
		return r, err
	}
	exit, out, err := d.runSetupIn(ctx, o, layer, r.Log)
	if d.isCancelled() {
		return r, errCancelled
	}
	if err != nil {
		return r, err
	}
	judgeSetup(&r, exit, o)
	r.Egress = out.totals
	if r.Status == sallyport.SetupDone {
		r.Left = left
		if r, err = d.keepSetup(dir, r); err != nil {
			return r, err
		}
	} else {
		r.Tail = d.tail(r.Log)
	}
	var more []journal.Record
	if len(out.refused) > 0 {
		more = append(more, journal.Record{Type: lifecycle.AttemptRefused, Data: lifecycle.Refused{Refusals: out.refused}})
	}
	for _, text := range out.notices {
		more = append(more, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: text}})
	}
	return r, d.tellSetup(ctx, r, more...)
}

func (d *driver) setupLog(o setupOrder) string {
	name := fmt.Sprintf("setup-%d", o.number)
	if o.kind != "base" {
		name += "-" + o.kind
	}
	return name + d.rerun
}

func judgeSetup(r *sallyport.SetupResult, exit provider.Exit, o setupOrder) {
	r.StatusBy, r.Exit, r.Seconds = exit.By, exit.Code, exit.Seconds
	r.Status = sallyport.SetupFailed
	switch exit.Cause {
	case "exit":
		if exit.Code == 0 {
			r.Status = sallyport.SetupDone
			return
		}
		r.Message = fmt.Sprintf("it ended with status %d", exit.Code)
	case "signal":
		r.Message = "it was ended by " + exit.Signal
	case "runtime":
		r.Message = fmt.Sprintf("it did not end within its timeout of %v", o.Timeout)
		if exit.Message != "" {
			r.Message += screen.Line("; " + exit.Message)
		}
	case "memory", "disk":
		r.Message = "it met its " + exit.Cause + " limit"
	default:
		r.Message = screen.Line("it could not be run: " + exit.Cause + " " + exit.Message)
	}
}

// keepSetup makes what a command left count, unless somebody else's run of the same does already: of two, one is
// what everybody is shown. Commit point: before the link nothing counts and gc removes the layer; after it a repeat
// finds it.
func (d *driver) keepSetup(dir string, r sallyport.SetupResult) (sallyport.SetupResult, error) {
	if err := syncFileSystem(dir); err != nil {
		return r, err
	}
	k := keptSetup{Attempt: d.id, Result: r}
	b, err := d.clean(k)
	if err == nil && b == nil {
		b, err = json.Marshal(k)
	}
	if err != nil {
		return r, err
	}
	mine := filepath.Join(dir, r.Left+".json")
	if err := writeDurable(mine, b); err != nil {
		return r, err
	}
	defer os.Remove(mine)
	err = os.Link(mine, filepath.Join(dir, setupRecord))
	if os.IsExist(err) {
		theirs, err := d.keptSetup(dir)
		if err != nil || theirs == nil {
			return r, stateError(dir, err)
		}
		r.Left = theirs.Result.Left // what ran was this Attempt's; what is shown is the other's
		return r, nil
	}
	if err != nil {
		return r, stateError(dir, err)
	}
	return r, syncFolder(dir)
}

// syncFileSystem: a layer holds thousands of files; one call for all of them is cheaper than one for each.
func syncFileSystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return stateError(dir, err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return stateError(dir, err)
	}
	return nil
}

// showSetup has a sandbox show what setup commands left.
func (d *driver) showSetup(ctx context.Context, tree sallyport.ObjectID, ws *provider.Workspace, caches []provider.Cache) ([]provider.Cache, error) {
	l, err := d.setUp(ctx, tree)
	if err != nil {
		return nil, err
	}
	ws.Beside = l.beside()
	return d.setupCaches(l, caches), nil
}

// setupCaches adds the layers of caches and home.
func (d *driver) setupCaches(l laid, caches []provider.Cache) []provider.Cache {
	if len(l.folders) == 0 {
		return caches
	}
	for i := range caches {
		var mine []string
		for _, upper := range l.each(fmt.Sprint("cache", i)) {
			if _, err := os.Lstat(upper); err == nil {
				mine = append(mine, upper)
			}
		}
		caches[i].Layers = append(mine, caches[i].Layers...)
	}
	return append(caches, provider.Cache{Path: d.m.Home, Layers: l.each("home")})
}

// setupFinding is what a reviewer is told where the checks ran with the base's dependencies.
func (d *driver) setupFinding(rule, path, message string) sallyport.Finding {
	f := sallyport.Finding{Rule: rule, Severity: sallyport.SeverityWarn, Path: inspect.Display(path), Message: message}
	for _, r := range inspect.Rules() {
		if r.ID == rule {
			f.Severity, f.Todo = r.Severity, r.Todo
		}
	}
	if s, ok := d.m.Severities[rule]; ok {
		f.Severity = s
	}
	return f
}

const (
	lockChanged = "lock.changed"
	lockSetup   = "lock.setup"
)

// setupFindings are findings with what setup makes of edited lock files: one that it runs from is told as such, one
// that it cannot run from is told whatever its name.
func (d *driver) setupFindings(ctx context.Context, tree sallyport.ObjectID, findings []sallyport.Finding) ([]sallyport.Finding, error) {
	p, err := d.planSetup(ctx, tree)
	if err != nil || len(p.locks) == 0 || len(d.m.Checks) == 0 {
		return findings, err
	}
	out := slices.Clone(findings)
	for _, path := range p.locks {
		is := func(f sallyport.Finding) bool { return f.Rule == lockChanged && f.Path == inspect.Display(path) }
		if p.stale != "" {
			if !slices.ContainsFunc(out, is) {
				out = append(out, d.setupFinding(lockChanged, path, "dependencies changed; the checks ran with the base's dependencies"))
			}
			continue
		}
		out = append(slices.DeleteFunc(out, is), d.setupFinding(lockSetup, path, "dependencies changed; setup runs from it without scripts, for the checks"))
	}
	return out, nil
}

// setUpChange makes ready what the checks of a change are shown, and says where it is not the change's.
func (d *driver) setUpChange(ctx context.Context, im *lifecycle.Imported) error {
	if len(d.m.Setup) == 0 || len(d.m.Checks) == 0 {
		return nil
	}
	l, err := d.setUp(ctx, im.Tree)
	if err != nil || l.stale == "" {
		return err
	}
	p, err := d.planSetup(ctx, im.Tree)
	if err != nil {
		return err
	}
	var findings []sallyport.Finding
	for _, path := range p.locks {
		findings = append(findings, d.setupFinding(lockChanged, path, "dependencies changed; the checks ran with the base's dependencies"))
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptFindings, Data: lifecycle.Findings{Findings: findings}})
}

// setupUnknown says what is missing from the totals of setup.
func setupUnknown(r sallyport.Report) []string {
	var out []string
	for _, s := range r.Setup {
		if s.Cut > 0 {
			out = append(out, fmt.Sprintf("setup %d was begun %d times before, and what it sent then was not counted, since a driver was ended", s.Number, s.Cut))
		}
	}
	return out
}

// keepSetups is how long what setup left is kept after its last use.
const keepSetups = 14 * 24 * time.Hour

// gcSetups removes layers that no record names, and what nobody has used for long. No sandbox may be left that
// shows one.
func (c *Control) gcSetups(dryRun bool) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(c.cfg.State, "setup", "*"))
	if err != nil {
		return nil, err
	}
	var lines []string
	remove := func(path, what string) error {
		lines = append(lines, "remove "+what+" "+filepath.Base(path))
		if dryRun {
			return nil
		}
		if err := removeLayer(path); err != nil {
			return stateError(path, err)
		}
		return nil
	}
	for _, dir := range dirs {
		record := filepath.Join(dir, setupRecord)
		fi, err := os.Lstat(record)
		if err == nil && time.Since(fi.ModTime()) > keepSetups {
			if !dryRun {
				_ = os.Remove(record) // first: a layer that is half gone counts for nobody
			}
			if err := remove(dir, "unused setup"); err != nil {
				return lines, err
			}
			continue
		}
		var k keptSetup
		if b, err := os.ReadFile(record); err == nil {
			if err := json.Unmarshal(b, &k); err != nil {
				return lines, stateError(record, err)
			}
		}
		layers, err := filepath.Glob(filepath.Join(dir, "layer_*"))
		if err != nil {
			return lines, err
		}
		for _, l := range layers {
			if filepath.Base(l) != k.Result.Left {
				if err := remove(l, "unnamed setup layer"); err != nil {
					return lines, err
				}
			}
		}
	}
	return lines, nil
}
