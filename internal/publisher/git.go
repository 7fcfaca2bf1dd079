package publisher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
)

// A mirror is a bare repository of the Publisher's own for one target: the base branch as the forge has it, and below it the
// commits that were handed over. It is a cache: what is damaged in it is made anew. Git's own locks do not wait, and a git
// that was killed leaves them, so one Publisher at a time uses it. One that is not used any more
// is removed by collect.

// newMirror begins the name of a mirror that is being made, under the lock of the mirror.
const newMirror = "new-"

func (p *Publisher) mirrorDir(o *order) string {
	return filepath.Join(p.config.State, "mirrors", sallyport.Sum([]byte(o.target.Repository)).Hex()[:32])
}

func (p *Publisher) useMirror(ctx context.Context, o *order) (release func(), err error) {
	return p.lock(ctx, mirrorLock(filepath.Base(p.mirrorDir(o))))
}

// mirrorLock is what is locked for the mirror of that name.
func mirrorLock(name string) string { return "mirror\x00" + name }

func (p *Publisher) mirror(ctx context.Context, o *order) (string, error) {
	dir := p.mirrorDir(o)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		now := p.options.Now()
		_ = os.Chtimes(dir, now, now) // collect goes by it; a mirror that is removed too early is made anew
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", unavailable("make a mirror", err)
	}
	tmp := filepath.Join(filepath.Dir(dir), newMirror+filepath.Base(dir))
	if err := os.RemoveAll(tmp); err != nil { // whoever left it has the lock no more
		return "", unavailable("make a mirror", err)
	}
	defer os.RemoveAll(tmp)
	format := "sha1"
	if len(o.commit()) > 40 {
		format = "sha256"
	}
	if err := forge.Init(ctx, tmp, format); err != nil {
		return "", err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(tmp, dir)); err != nil {
		return "", unavailable("make a mirror", err)
	}
	return dir, nil
}

// fetch brings the base branch into the mirror, and says where it is at the forge, and whether base is there or in its history.
func (p *Publisher) fetch(ctx context.Context, o *order, r forge.Remote, base sallyport.ObjectID) (tip sallyport.ObjectID, within bool, err error) {
	release, err := p.useMirror(ctx, o)
	if err != nil {
		return "", false, err
	}
	defer release()
	tip, within, err = p.fetchOnce(ctx, o, r, base)
	if sallyport.CodeOf(err) == sallyport.CodeUnavailable && ctx.Err() == nil {
		// Is it the forge, or the mirror? Where the forge answers, a new mirror tells.
		if _, terr := forge.Tip(ctx, r, o.accepted().Target.Base); terr == nil {
			if rerr := os.RemoveAll(p.mirrorDir(o)); rerr != nil {
				return "", false, unavailable("make a mirror", rerr)
			}
			tip, within, err = p.fetchOnce(ctx, o, r, base)
		}
	}
	return tip, within, err
}

func (p *Publisher) fetchOnce(ctx context.Context, o *order, r forge.Remote, base sallyport.ObjectID) (tip sallyport.ObjectID, within bool, err error) {
	dir, err := p.mirror(ctx, o)
	if err == nil {
		tip, err = forge.Fetch(ctx, dir, r, o.accepted().Target.Base)
	}
	if err == nil {
		within, err = forge.Contains(ctx, dir, tip, base)
	}
	return tip, within, err
}

// send puts the pack's objects into the mirror and moves the branch at the forge from expect to the commit.
func (p *Publisher) send(ctx context.Context, o *order, r forge.Remote, expect sallyport.ObjectID) error {
	release, err := p.useMirror(ctx, o)
	if err != nil {
		return err
	}
	defer release()
	dir, err := p.mirror(ctx, o)
	if err != nil {
		return err
	}
	if err := forge.Unpack(ctx, dir, o.pack); err != nil {
		return err
	}
	return forge.Push(ctx, dir, r, o.commit(), expect, o.head())
}

// attachment makes in the mirror the commit of acceptance and evidence that goes beside the change, and tells what is at the
// forge in its place. It is a carrier that anybody who can write there can take away, and nobody can change unseen.
func (p *Publisher) attachment(ctx context.Context, o *order, r forge.Remote) (dir string, row BranchRow, err error) {
	if dir, err = p.mirror(ctx, o); err != nil {
		return "", row, err
	}
	issued, err := time.Parse(time.RFC3339, o.accepted().Issued)
	if err != nil {
		return "", row, err
	}
	row.Ref = evidence.AttachedRef(o.commit())
	if row.Commit, err = forge.Attach(ctx, dir, issued, map[string][]byte{evidence.AttachedEvidence: o.envelope, evidence.AttachedAcceptance: o.sealed}); err == nil {
		row.Expect, err = forge.Tip(ctx, r, row.Ref)
	}
	return dir, row, err
}
