package change

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sallyport.dev/sallyport"
)

// CheckoutOptions say what a sandbox starts from.
type CheckoutOptions struct {
	// Tree is what the files are; "": that of Commit. It may differ from Commit's (a dirty work tree): then
	// `git status` inside shows the difference.
	Tree sallyport.ObjectID
	// Commit is what HEAD inside is, with its history. "": no git folder.
	Commit   sallyport.ObjectID
	BaseRef  string // full ref name that points at Commit inside; "": none
	Branch   string // the branch HEAD names, without "refs/heads/"
	History  string // "full" or "": all; else how many commits deep
	Identity string // the name on the agent's own commits: "claude-code (sallyport)"
}

// Checkout is two cached folders in use. Neither is ever written again: both are lower layers.
type Checkout struct {
	Files  string // raw files of Tree, with an empty ".git" as a mount point
	GitDir string // "" without a Commit
	// Locks keep the folders from eviction as long as any copy of these descriptors is open; without a driver, GC
	// spares all checkouts while an Attempt has not ended.
	Locks  []*os.File
	Reused bool // nothing had to be built
	// Release closes the locks. It may be called again.
	Release func()

	held []*held
}

// Verified waits until each folder has been compared with what it was when it was built, which goes on beside
// its use: nothing that rests on a Checkout counts before Verified has returned nil. CodeCorrupt: a folder is
// damaged; it will not be handed out again, by no process, and the next Checkout builds a new one. It may be
// called again, and by several at once.
func (c Checkout) Verified(ctx context.Context) error { return c.each(ctx, (*held).verified) }

// Watch is Verified for whoever only has to know once it is known: the comparison begins a little later, when what is
// started on the Checkout is likely to have started.
func (c Checkout) Watch(ctx context.Context) error { return c.each(ctx, (*held).watched) }

func (c Checkout) each(ctx context.Context, wait func(*held, context.Context) error) error {
	if len(c.held) == 0 {
		return &sallyport.Error{Op: "compare checkout", Code: sallyport.CodeInvalid, Message: "there is none"}
	}
	var first error
	for _, h := range c.held { // all of them: where both are damaged, the next must not get one of them
		if err := wait(h, ctx); first == nil {
			first = err
		}
	}
	return first
}

// inUse is a Checkout of entries in use: the files, and the git folder where there is one.
func inUse(held ...*held) Checkout {
	c := Checkout{Files: held[0].dir, Reused: true, held: held}
	if len(held) == 2 {
		c.GitDir = held[1].dir
	}
	for _, h := range held {
		c.Locks = append(c.Locks, h.lock)
		c.Reused = c.Reused && h.compare != nil
	}
	c.Release = sync.OnceFunc(func() {
		for _, h := range held {
			h.release()
		}
	})
	return c
}

// Checkout finds or builds both folders. The files depend on the tree only, the git folder on everything.
// The git folder has one pack of exactly what can be reached from Commit, refs for BaseRef and Branch, and
// an index that fits the files. Equal options, also in another process: the same folders. What is found is
// only being compared when this returns: see Verified.
func (s *Store) Checkout(ctx context.Context, o CheckoutOptions) (Checkout, error) {
	if err := s.complete(ctx, &o); err != nil {
		return Checkout{}, err
	}
	subs, err := s.Submodules(ctx, o.Tree)
	if err != nil {
		return Checkout{}, err
	}
	c, err := s.both(ctx, o, subs)
	for range 2 { // what is known as damaged now is not found again
		if sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			break
		}
		c, err = s.both(ctx, o, subs)
	}
	return c, err
}

// both finds or builds the files and, where a Commit is asked for, the git folder. CodeCorrupt: the files turned out to be
// damaged as the git folder was to be made from them.
func (s *Store) both(ctx context.Context, o CheckoutOptions, subs []Submodule) (Checkout, error) {
	files, err := s.obtain(ctx, filesKey(o.Tree, subs), false, func(ctx context.Context, dir string) error { return s.buildFiles(ctx, o.Tree, subs, dir) })
	if err != nil {
		return Checkout{}, err
	}
	if o.Commit == "" {
		return inUse(files), nil
	}
	gitDir, err := s.obtain(ctx, "gitdir-"+o.key(), true, func(ctx context.Context, dir string) error {
		if err := s.checkNames(ctx, o); err != nil {
			return err
		}
		m, err := files.manifest()
		if err != nil {
			return err
		}
		return s.buildGitDir(ctx, o, m, dir)
	})
	if err != nil {
		files.release()
		return Checkout{}, err
	}
	return inUse(files, gitDir), nil
}

// Reopen is the Checkout that an earlier process was given, by its folders. It is compared anew: what that
// process found out, or whether it came to it, is not known. CodeCorrupt: it is gone or known as damaged.
func (s *Store) Reopen(files, gitDir string) (Checkout, error) {
	f, err := s.reopen(files)
	if err != nil {
		return Checkout{}, err
	}
	if gitDir == "" {
		return inUse(f), nil
	}
	g, err := s.reopen(gitDir)
	if err != nil {
		f.release()
		return Checkout{}, err
	}
	return inUse(f, g), nil
}

func (s *Store) reopen(dir string) (*held, error) {
	entry := filepath.Dir(dir)
	bad := &sallyport.Error{Op: "reopen checkout", Code: sallyport.CodeInvalid, Subject: dir, Message: "it is none of this store"}
	if filepath.Base(dir) != "data" || filepath.Dir(entry) != s.cacheDir() {
		return nil, bad
	}
	if h, err := s.hold(entry); h != nil || err != nil {
		return h, err
	}
	bad.Code, bad.Message = sallyport.CodeCorrupt, "it is gone or known as damaged"
	return nil, bad
}

func (o CheckoutOptions) key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"1", string(o.Commit), string(o.Tree), o.BaseRef, o.Branch, o.History, o.Identity}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// complete checks the options that can be checked without git, and fills in the tree.
func (s *Store) complete(ctx context.Context, o *CheckoutOptions) error {
	if o.History == "" {
		o.History = "full"
	}
	if _, err := depthOf(o.History); err != nil {
		return err
	}
	if o.Tree != "" || o.Commit == "" {
		return o.Tree.Check()
	}
	objs, err := s.objects(ctx)
	if err != nil {
		return err
	}
	defer objs.close()
	o.Tree, err = objs.treeOf(o.Commit)
	return err
}

// checkNames checks the refs of a git folder that is to be built. One that is found in the cache has the
// same names, as they are in its key.
func (s *Store) checkNames(ctx context.Context, o CheckoutOptions) error {
	bad := func(subject, why string) error {
		return &sallyport.Error{Op: "check out", Code: sallyport.CodeInvalid, Subject: subject, Message: why}
	}
	for _, ref := range []string{o.BaseRef, "refs/heads/" + o.Branch} {
		if ref == "" {
			continue
		}
		if _, err := s.git.run(ctx, nil, "check-ref-format", ref); err != nil || !strings.HasPrefix(ref, "refs/") {
			return bad(printable(ref), "expected a full ref name")
		}
	}
	if head := "refs/heads/" + o.Branch; strings.HasPrefix(o.BaseRef, head+"/") || strings.HasPrefix(head, o.BaseRef+"/") {
		return bad(printable(o.Branch), "one branch cannot lie below another")
	}
	return nil
}

func (s *Store) buildFiles(ctx context.Context, tree sallyport.ObjectID, subs []Submodule, dir string) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	files, dirs, err := o.leaves(tree)
	o.close()
	if err != nil {
		return err
	}
	when := treeStamp(tree)
	if err := s.materialise(ctx, dir, fileSet{dirs: dirs, files: files, stamp: func(leaf) time.Time { return when }, known: s.loadSums()}); err != nil {
		return err
	}
	if err := s.laySubmodules(ctx, subs, dir, when); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return unwritable(err)
	}
	return nil
}

// buildGitDir writes a git folder that holds nothing but what is listed here.
func (s *Store) buildGitDir(ctx context.Context, o CheckoutOptions, files *manifest, dir string) error {
	pack, err := s.sound(ctx, "pack-"+string(o.Commit)+"-"+o.History, true, func(ctx context.Context, dir string) error { return s.buildPack(ctx, o, dir) })
	if err != nil {
		return err
	}
	defer pack.release()
	for _, d := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "info"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return unwritable(err)
		}
	}
	if err := copyPack(pack.dir, dir); err != nil {
		return err
	}
	// Another branch or name on the same base has the same index.
	index, err := s.sound(ctx, "index-"+string(o.Commit)+"-"+string(o.Tree), true, func(ctx context.Context, dir string) error {
		data, err := s.buildIndex(ctx, o, files)
		if err != nil {
			return err
		}
		return writePlain(filepath.Join(dir, "index"), data)
	})
	if err != nil {
		return err
	}
	defer index.release()
	if err := os.Link(filepath.Join(index.dir, "index"), filepath.Join(dir, "index")); err != nil {
		return unwritable(err)
	}
	refs := "# pack-refs with: peeled fully-peeled sorted \n"
	names := []string{"refs/heads/" + o.Branch}
	if o.BaseRef != "" && o.BaseRef != names[0] {
		names = append(names, o.BaseRef)
	}
	if len(names) == 2 && names[1] < names[0] {
		names[0], names[1] = names[1], names[0]
	}
	for _, n := range names {
		refs += string(o.Commit) + " " + n + "\n"
	}
	for name, data := range map[string][]byte{
		"HEAD": []byte("ref: refs/heads/" + o.Branch + "\n"), "config": []byte(s.agentConfig(o.Identity)),
		"packed-refs": []byte(refs), "info/exclude": nil, "info/attributes": []byte(rawAttributes),
	} {
		if err := writePlain(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// rawAttributes beat those of the tree: what git inside writes or reads is what the blob has, as everywhere else.
const rawAttributes = "* -text -eol -ident -filter -working-tree-encoding\n"

func writePlain(name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return unwritable(err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		return unwritable(err)
	}
	return nil
}

// agentConfig: no hooks, no signing, no background work, and stat data that survive an overlay.
func (s *Store) agentConfig(identity string) string {
	name := identPart(identity, "agent (sallyport)")
	version, ext := 0, ""
	if s.format() == SHA256 {
		version, ext = 1, "[extensions]\n\tobjectFormat = sha256\n"
	}
	return fmt.Sprintf(`[core]
	repositoryformatversion = %d
	filemode = true
	bare = false
	logAllRefUpdates = true
	checkStat = minimal
	trustctime = false
	hooksPath = /dev/null
%s[user]
	name = %s
	email = agent@sallyport.localhost
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gc]
	auto = 0
[maintenance]
	auto = false
`, version, ext, configValue(name))
}

// configValue quotes a value for git's configuration.
func configValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(s) + `"`
}

func (s *Store) buildIndex(ctx context.Context, o CheckoutOptions, files *manifest) ([]byte, error) {
	objs, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer objs.close()
	tree, err := objs.treeOf(o.Commit)
	if err != nil {
		return nil, err
	}
	leaves, _, err := objs.leaves(tree)
	if err != nil {
		return nil, err
	}
	differs := map[string]bool{}
	if tree != o.Tree {
		d := &differ{objects: objs, budget: &budget{left: maxEntries}, both: func(path string, _, _ *treeEntry) error {
			differs[path] = true
			return nil
		}}
		if err := d.walk("", tree, o.Tree, 0); err != nil {
			return nil, err
		}
	}
	sizes := make(map[string]int64, len(leaves))
	err = files.each(func(dir, name string, s fileStat) error {
		sizes[path.Join(dir, name)] = s.size
		return nil
	})
	if err != nil {
		return nil, err
	}
	when := treeStamp(o.Tree)
	entries := make([]indexEntry, 0, len(leaves))
	for _, l := range leaves {
		e := indexEntry{leaf: l}
		if !differs[l.path] && !l.isGitlink() {
			e.size, e.when = sizes[l.path], when
		}
		entries = append(entries, e)
	}
	return formatIndex(s.format(), entries), nil
}

// copyPack hard-links the pack into a git folder: it is shared by all branches that start from one commit.
func copyPack(from, gitDir string) error {
	names, err := os.ReadDir(from)
	if err != nil {
		return unwritable(err)
	}
	for _, n := range names {
		to := filepath.Join(gitDir, "objects/pack", n.Name())
		if n.Name() == "shallow" {
			to = filepath.Join(gitDir, "shallow")
		}
		if err := os.Link(filepath.Join(from, n.Name()), to); err != nil {
			return unwritable(err)
		}
	}
	return nil
}
