package control

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/checks"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
)

// trial is one run of a check on one tree.
type trial struct {
	Check   sallyport.Check
	Tree    sallyport.ObjectID
	Purpose sallyport.Purpose
	Log     string // its log's name
	Keep    string // where what it writes into caches stays; "": nowhere
}

// outcome is what a trial showed. Status and Exit are what the kernel told the keeper; the rest comes out of
// the sandbox and can spoil a pass only.
type outcome struct {
	Status  sallyport.CheckStatus `json:"status"`
	By      string                `json:"by"`
	Exit    int                   `json:"exit"`
	Seconds float64               `json:"seconds"`
	Endless bool                  `json:"endless,omitempty"` // it met its timeout
	Message string                `json:"message,omitempty"`
	Tail    string                `json:"-"`
	Tally   *sallyport.Tally      `json:"tally,omitempty"`
	Unbuilt bool                  `json:"unbuilt,omitempty"` // its output says that its tests could not even be built
	Touched []string              `json:"touched,omitempty"` // files that it is judged by and that it changed while it ran
	Unseen  string                `json:"unseen,omitempty"`  // why Touched could not be known
	Witness string                `json:"witness,omitempty"` // on the base: a test file that it does listen to
}

// tailLines is how much of a failed check's output a person is shown at once.
const (
	tailLines = 20
	tailBytes = 16 << 10
)

// runCheck runs one check on one tree in a fresh sandbox.
func (d *driver) runCheck(ctx context.Context, t trial) (outcome, error) {
	o := outcome{Status: sallyport.CheckError, Exit: -1}
	ws, co, err := d.workspace(ctx, t.Tree)
	if err != nil {
		return o, err
	}
	ws.Collect = true
	caches, err := d.caches(t.Keep)
	if err != nil {
		return o, err
	}
	if caches, err = d.showSetup(ctx, t.Tree, &ws, caches); err != nil {
		return o, err
	}
	argv, mark, err := commandOf(t.Check)
	if err != nil {
		return o, err
	}
	spec := provider.Spec{Purpose: t.Purpose, Workspace: ws, Mounts: d.m.Mounts, Caches: caches, Home: d.m.Home, Limits: limitsOf(d.m, t.Check),
		Command: provider.Command{Argv: argv, Dir: filepath.Join(d.m.Repository, t.Check.Dir), Env: d.environment(map[string]string{"CI": "true"})}}
	exit, err := d.runOnce(ctx, spec, co, t.Check.Name, t.Log, nil, func(w provider.Wire, e provider.Exit) (err error) {
		if e.Cause == "exit" && e.Code == 0 {
			if o.Touched, err = d.touched(ctx, w, t); sallyport.CodeOf(err) == sallyport.CodeExhausted {
				o.Unseen, err = messageOf(err), nil
			}
		}
		return err
	})
	if err != nil {
		return o, err
	}
	o.judgeExit(exit, t.Check)
	if err := d.readLog(&o, t, mark); err != nil {
		return o, err
	}
	if o.Status != sallyport.CheckPassed {
		o.Tail = d.tail(t.Log)
	}
	return o, nil
}

// limitsOf bound one run of a check.
func limitsOf(m sallyport.Manifest, k sallyport.Check) sallyport.Limits {
	l := m.Limits
	l.Time = k.Timeout
	return l
}

// reportShell runs a check's command ($1) and then shows its report file ($3) behind a mark ($2), with the
// command's own status. A report that was there before is nobody's word about this run.
const reportShell = `rm -f -- "$3"; sh -c "$1"; s=$?; printf '\n%s\n' "$2"; cat -- "$3" 2>/dev/null; exit $s`

// commandOf is the check's command line, and the mark behind which its report follows in the output; "": its
// output is its report.
func commandOf(k sallyport.Check) (argv []string, mark string, err error) {
	if k.Report == nil || k.Report.Path == "" {
		return []string{"sh", "-c", k.Run}, "", nil
	}
	mark, err = id.Secret()
	return []string{"sh", "-c", reportShell, "sh", k.Run, mark, k.Report.Path}, mark, err
}

func (o *outcome) judgeExit(exit provider.Exit, k sallyport.Check) {
	o.By, o.Exit, o.Seconds = exit.By, exit.Code, exit.Seconds
	switch {
	case exit.Cause == "exit" && exit.Code == 0:
		o.Status = sallyport.CheckPassed
	case exit.Cause == "exit" || exit.Cause == "signal":
		o.Status = sallyport.CheckFailed
	case exit.Cause == "runtime":
		o.Status, o.Endless, o.Message = sallyport.CheckFailed, true, fmt.Sprintf("it did not end within its timeout of %v", k.Timeout)
		if exit.Message != "" {
			o.Message += screen.Line("; " + exit.Message)
		}
	case exit.Cause == "memory", exit.Cause == "disk":
		o.Status, o.Message = sallyport.CheckFailed, "it met its "+exit.Cause+" limit"
	default:
		o.Message = screen.Line("it could not be run: " + exit.Cause + " " + exit.Message)
	}
}

// readLog takes from the output what the check told of its tests. A pass that collected nothing is none.
func (d *driver) readLog(o *outcome, t trial, mark string) error {
	f, err := os.Open(d.logPath(t.Log))
	if err != nil {
		return stateError(d.logPath(t.Log), err)
	}
	defer f.Close()
	format := ""
	if t.Check.Report != nil {
		format = t.Check.Report.Format
	}
	var report io.Reader = f
	if mark != "" {
		if report, err = behind(f, mark); err != nil {
			return stateError(d.logPath(t.Log), err)
		}
	}
	if o.Tally, err = checks.Read(format, report); err != nil {
		o.Message = also(o.Message, screen.Line("its report cannot be read: "+err.Error()))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if o.Status == sallyport.CheckFailed {
		// What cannot be read is no sign of anything: a fault then counts as it ended.
		if _, o.Unbuilt, err = checks.BuildFailed(format, f); err != nil {
			o.Message = also(o.Message, screen.Line("its output cannot be read: "+err.Error()))
		}
	}
	if o.Status == sallyport.CheckPassed && o.Tally != nil && o.Tally.Tests == 0 {
		o.Status = sallyport.CheckFailed
		o.Message = also("it ended with 0 and no test ran ("+o.Tally.Format+")", o.Message)
	}
	return nil
}

// behind is what follows the last line that is the mark: the candidate may have printed it as well, and can
// then only hide its own report.
func behind(f *os.File, mark string) (io.Reader, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	const window = 64 << 10
	needle := "\n" + mark + "\n"
	for end := fi.Size(); end > 0; end -= window {
		from := max(end-window-int64(len(needle)), 0)
		b := make([]byte, end-from)
		if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
			return nil, err
		}
		if i := strings.LastIndex(string(b), needle); i >= 0 {
			at := from + int64(i+len(needle))
			return io.NewSectionReader(f, at, fi.Size()-at), nil
		}
	}
	return strings.NewReader(""), nil
}

// touched are the files that the check is judged by and that are different after it ran: what overwrites a
// test between two steps of one check is told by it. New files count where a runner would load them by itself.
func (d *driver) touched(ctx context.Context, w provider.Wire, t trial) ([]string, error) {
	judges, err := d.judges(ctx, t)
	if err != nil {
		return nil, err
	}
	r, in := io.Pipe()
	sent := make(chan error, 1)
	go func() { err := w.Collect(ctx, in); sent <- err; in.CloseWithError(err) }()
	found, err := judges.touched(collect.NewReader(r, collect.DefaultLimits()))
	r.Close()
	if failed := <-sent; err != nil && sallyport.CodeOf(failed) == sallyport.CodeExhausted {
		err = failed // the reader only saw that nothing came any more
	}
	return found, err
}

func (j judges) touched(stream *collect.Reader) ([]string, error) {
	var found []string
	for {
		rec, err := stream.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Path == "" {
			continue
		}
		hit := j.struck(rec.Path)
		if len(hit) == 0 && rec.Kind != collect.KindDelete {
			new, err := loadedNew(rec, stream)
			if err != nil {
				return nil, err
			}
			if new {
				hit = []string{rec.Path}
			}
		}
		found = append(found, hit...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// judges are the files of a tree that a check is judged by, sorted.
type judges []string

func (d *driver) judges(ctx context.Context, t trial) (judges, error) {
	paths, err := d.store.Paths(ctx, t.Tree)
	if err != nil {
		return nil, err
	}
	named := namedFiles(t.Check)
	var all judges
	for p := range paths {
		if judgedBy(t.Check, named, p) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all, nil
}

// struck are those that are not any more what they were once something else stands at path, or nothing: the file
// itself, all below it, and what was a file where a folder is now.
func (j judges) struck(path string) []string {
	for above := path; above != "."; above = filepath.Dir(above) {
		if _, ok := slices.BinarySearch(j, above); ok {
			return []string{above}
		}
	}
	from, _ := slices.BinarySearch(j, path+"/")
	to := from
	for to < len(j) && strings.HasPrefix(j[to], path+"/") {
		to++
	}
	return j[from:to]
}

// loadedNew reports whether a runner would load a file that the check made, by its place or by what is in it.
func loadedNew(rec collect.Record, body io.Reader) (bool, error) {
	if _, _, ok := checks.Loaded(rec.Path); ok || rec.Kind != collect.KindFile || rec.Size > maxFaultFile {
		return ok, nil
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return false, err
	}
	_, _, ok := checks.LoadedContent(rec.Path, content)
	return ok, nil
}

// runOnce makes a sandbox for one command, lets before (may be nil) do what comes before its start, keeps its
// output, lets after look at what is left, and proves the sandbox gone.
func (d *driver) runOnce(ctx context.Context, spec provider.Spec, co change.Checkout, label, log string, before func(context.Context, provider.Wire) error, after func(provider.Wire, provider.Exit) error) (provider.Exit, error) {
	f, err := d.intend(ctx, spec, label, held{})
	if err != nil {
		return provider.Exit{}, err
	}
	rid, err := d.makeOn(ctx, f, co)
	if err != nil {
		return provider.Exit{}, err
	}
	var exit provider.Exit
	err = d.standingOn(ctx, co, func(ctx context.Context) error {
		return d.whileCut(ctx, func() (err error) { exit, err = d.runIn(ctx, f, rid, log, before, after); return err })
	})
	if derr := d.destroy(context.WithoutCancel(ctx), f.Spec.Allocation, rid, "its command has ended"); err == nil {
		err = derr
	}
	return exit, err
}

func (d *driver) runIn(ctx context.Context, f frozen, rid sallyport.ResourceID, log string, before func(context.Context, provider.Wire) error, after func(provider.Wire, provider.Exit) error) (provider.Exit, error) {
	w, done, err := d.connect(ctx, f, rid)
	if err != nil {
		return provider.Exit{}, err
	}
	defer done()
	a := f.Spec.Allocation
	if al, err := d.allocation(ctx, a); err != nil {
		return provider.Exit{}, err
	} else if al.State == sallyport.SandboxProvisioning {
		if err := d.record(ctx, journal.Record{Type: lifecycle.AllocationReady, Allocation: a}, journal.Record{Type: lifecycle.AllocationRunning, Allocation: a}); err != nil {
			return provider.Exit{}, err
		}
	}
	if before != nil {
		if err := before(ctx, w); err != nil {
			return provider.Exit{}, err
		}
	}
	if err := w.Start(ctx); err != nil {
		return provider.Exit{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.cancelled:
			_ = w.Stop(ctx, "cancelled")
		case <-ctx.Done():
		}
	}()
	if err := d.copyOutput(ctx, w, log); err != nil {
		return provider.Exit{}, err
	}
	exit, err := d.ended(ctx, w)
	if err != nil {
		return exit, err
	}
	return exit, after(w, exit)
}

// tail is the last lines of a log, neutralised.
func (d *driver) tail(log string) string {
	f, err := os.Open(d.logPath(log))
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(fi.Size()-tailBytes, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(screen.Text(b), "\n"), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return strings.Join(lines, "\n")
}
