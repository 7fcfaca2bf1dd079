package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/screen"
)

func sumFile(f *os.File) (sallyport.Digest, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return "", 0, err
	}
	return sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), n, nil
}

// importChange hashes and writes every object of the quarantined change itself. Then an agent that failed
// ends the Attempt: what it left can be looked at and gone on from.
func (d *driver) importChange(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if at.Imported == nil {
		if err := d.stage(ctx, sallyport.AttemptInspecting); err != nil {
			return err
		}
		if err := d.importBundle(ctx, at); err != nil {
			return err
		}
	}
	return agentFailure(at.Report.Agent, d.id)
}

func (d *driver) importBundle(ctx context.Context, at journal.Attempt) error {
	file := d.c.quarantinePath(at.Report.Bundle)
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &sallyport.Error{Op: "read quarantine", Code: sallyport.CodeCorrupt, Subject: file, Err: err}
	}
	defer f.Close()
	if sum, _, err := sumFile(f); err != nil || sum != at.Report.Bundle {
		return &sallyport.Error{Op: "read quarantine", Code: sallyport.CodeCorrupt, Subject: file, Message: "its bytes are not those of its name", Err: err}
	}
	imported, err := d.store.Import(ctx, at.StartTree, f, collect.DefaultLimits(), d.m.Copies...)
	if err != nil {
		return err
	}
	// A retry starts from an earlier tree; what counts is the whole difference to the base.
	if imported.Changes, err = d.store.Diff(ctx, d.m.BaseTree, imported.Tree); err != nil {
		return err
	}
	for i, m := range imported.Commits {
		imported.Commits[i] = screen.Text([]byte(m))
	}
	records := []journal.Record{{Type: lifecycle.AttemptImported, Data: imported}}
	if text := leftOut(imported.Left); text != "" {
		records = append(records, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: text}})
	}
	return d.record(ctx, records...)
}

// leftOut says what of the workspace is not part of the change; ignored files are as a person expects.
func leftOut(left map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		if reason != collect.LeftIgnored {
			parts = append(parts, fmt.Sprintf("%d %s", left[reason], reason))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not taken into the change: " + strings.Join(parts, ", ")
}

// inspect finds what can be said of the change without running it. A repeat says the same.
func (d *driver) inspect(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.State != sallyport.AttemptInspecting {
		return err
	}
	paths, err := d.store.Paths(ctx, d.m.BaseTree)
	if err != nil {
		return err
	}
	known, err := d.knownIn(at.Imported.Changes)
	if err != nil {
		return err
	}
	toLFS, err := d.toLFS(ctx, at.Imported)
	if err != nil {
		return err
	}
	messages := append(slices.Clone(at.Imported.Commits), d.m.Task)
	findings, err := inspect.Inspect(ctx, inspect.Input{Severities: d.m.Severities, HasLFS: d.hasLFS, ToLFS: toLFS, Messages: messages, Known: known, IsTest: d.isTest, Changes: at.Imported.Changes, Scope: d.m.Scope, Blob: d.store.ReadBlob, BasePaths: paths})
	if err != nil {
		return err
	}
	if findings, err = d.setupFindings(ctx, at.Imported.Tree, findings); err != nil {
		return err
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptFindings, Data: lifecycle.Findings{Findings: findings}})
}

// isTest reports whether a path is a test of any check; where there is no check, by the habits of its language.
func (d *driver) isTest(path string) bool {
	return len(d.m.Checks) == 0 && inspect.IsTest(path, nil) ||
		slices.ContainsFunc(d.m.Checks, func(k sallyport.Check) bool { return inspect.IsTest(path, k.Tests) })
}

// toLFS are the changed paths that Git LFS should keep, by the base's word or the change's.
func (d *driver) toLFS(ctx context.Context, im *lifecycle.Imported) (map[string]bool, error) {
	var paths []string
	for _, c := range im.Changes {
		paths = append(paths, c.Path)
	}
	all := map[string]bool{}
	for _, tree := range []sallyport.ObjectID{d.m.BaseTree, im.Tree} {
		found, err := d.store.Filtered(ctx, tree, "lfs", paths)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// hasLFS reports whether the repository's local store of Git LFS has an object.
func (d *driver) hasLFS(oid string) bool {
	if len(oid) != 64 {
		return false
	}
	fi, err := os.Lstat(filepath.Join(d.repo.CommonDir, "lfs", "objects", oid[:2], oid[2:4], oid))
	return err == nil && fi.Mode().IsRegular()
}
