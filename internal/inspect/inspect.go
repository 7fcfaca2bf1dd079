package inspect

import (
	"context"
	"fmt"
	"iter"
	"time"

	"sallyport.dev/sallyport"
)

// Input is a change and what is needed to judge it.
type Input struct {
	Changes []sallyport.Change
	Scope   sallyport.Scope
	// Blob returns at most max leading bytes of a blob. An error ends the inspection.
	Blob func(ctx context.Context, id sallyport.ObjectID, max int64) ([]byte, error)
	// BaseHas reports whether the base has a file at a path; nil: only OldMode tells.
	BaseHas func(path string) bool
	// BasePaths are all files of the base, in any order; nil: twins are looked for in the change alone.
	BasePaths iter.Seq[string]
	// IsTest reports whether a path is a test; nil: by the habits of each language.
	IsTest func(path string) bool
	// HasLFS reports whether the local store of Git LFS has an object, by its SHA-256 in lower-case hex; nil:
	// it is not known, and findings say so.
	HasLFS func(oid string) bool
	// ToLFS are the changed paths that attributes, the base's or the change's, give to Git LFS.
	ToLFS map[string]bool
	// Messages are published with the change: the agent's commits, the task.
	Messages []string
	// Known names the known secrets whose value, in any spelling, is in a text; nil: none is known.
	Known func(text []byte) []string
	// Severities are policy's own for rules, within their floors; a rule that is not named keeps its default.
	Severities map[string]sallyport.Severity
	Limits     Limits
}

// Limits bound an inspection. Zero means the default. What exceeds one is a finding, never silence.
type Limits struct {
	BlobBytes  int64         // scanned of one blob; 8 MiB
	TotalBytes int64         // scanned of all blobs; 256 MiB
	Time       time.Duration // for content; 30 s
	PerRule    int           // findings of one rule; 50
	FileSize   int64         // above it size.file; 5 MiB
	ChangeSize int64         // above it size.total; 50 MiB
	Files      int           // changed paths, above it size.count; 1000
	Depth      int           // components of a path, above it size.path; 32
}

func (l Limits) withDefaults() Limits {
	set := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.BlobBytes, 8<<20)
	set(&l.TotalBytes, 256<<20)
	set(&l.FileSize, 5<<20)
	set(&l.ChangeSize, 50<<20)
	if l.Time <= 0 {
		l.Time = 30 * time.Second
	}
	few := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	few(&l.PerRule, 50)
	few(&l.Files, 1000)
	few(&l.Depth, 32)
	return l
}

// inspection is one run of Inspect.
type inspection struct {
	Input
	found  collector
	spent  int64
	end    time.Time
	unread int // files that a limit kept from being scanned
	attrs  []*attrFile
}

// Inspect returns the findings about a change, worst first, then by path; never nil. Equal input gives equal
// findings unless a time limit is met. Errors: a blob that cannot be read, a scope pattern or a severity that is
// not valid, a path that occurs twice, an ended ctx. On error there is no verdict.
func Inspect(ctx context.Context, in Input) ([]sallyport.Finding, error) {
	in.Limits = in.Limits.withDefaults()
	i := &inspection{Input: in, found: collector{limit: in.Limits.PerRule, severities: in.Severities}, end: time.Now().Add(in.Limits.Time)}
	if err := i.check(); err != nil {
		return nil, err
	}
	for _, c := range in.Changes {
		i.scope(c)
		i.names(c)
		i.modes(c)
		i.lfsSize(c)
		i.kinds(c)
	}
	i.twins()
	i.nested()
	i.sizes()
	i.spoken()
	if err := i.contents(ctx); err != nil {
		return nil, err
	}
	if err := i.weakened(ctx); err != nil {
		return nil, err
	}
	return i.found.sorted(), nil
}

// check refuses what cannot be judged.
func (i *inspection) check() error {
	if err := checkPatterns(i.Scope); err != nil {
		return err
	}
	if err := CheckSeverities(i.Severities); err != nil {
		return err
	}
	seen := make(map[string]bool, len(i.Changes))
	for _, c := range i.Changes {
		if seen[c.Path] {
			return &sallyport.Error{Op: "inspect change", Code: sallyport.CodeCorrupt, Subject: Display(c.Path), Message: "occurs twice in one tree diff"}
		}
		seen[c.Path] = true
	}
	return nil
}

// added reports whether the path is new in this change.
func (i *inspection) added(c sallyport.Change) bool {
	if c.OldMode != "" || c.Status == sallyport.ChangeDeleted {
		return false
	}
	return i.BaseHas == nil || !i.BaseHas(c.Path)
}

// gone reports whether the new tree lacks the path.
func gone(c sallyport.Change) bool { return c.Status == sallyport.ChangeDeleted || c.NewMode == "" }

const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

func isFile(mode string) bool { return mode == modeFile || mode == modeExecutable }

func (i *inspection) blob(ctx context.Context, path string, id sallyport.ObjectID, max int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sallyport.Error{Op: "inspect change", Code: sallyport.CodeUnknown, Message: "was ended before it was done", Err: err}
	}
	b, err := i.Blob(ctx, id, max)
	if err != nil {
		return nil, &sallyport.Error{Op: "inspect change", Code: sallyport.CodeOf(err), Subject: Display(path), Message: fmt.Sprintf("blob %s cannot be read", id.Short()), Err: err}
	}
	if int64(len(b)) > max {
		b = b[:max]
	}
	return b, nil
}
