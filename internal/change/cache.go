package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// A cache entry is cache/KEY.N: "lock", "manifest" and the folder "data". Whoever uses it holds a shared
// flock on "lock"; who removes it needs the exclusive one. It appears by rename, whole. An entry that does
// not match its manifest is never repaired: it loses the manifest, by which every process knows it as damaged,
// and a new one is made as KEY.N+1, since the old may be in use.

// held is an entry in use. One that was found is compared with its manifest meanwhile.
type held struct {
	dir     string // data
	lock    *os.File
	built   *manifest   // nil: it was found
	compare *comparison // nil: it was just built
}

// manifest is what it looked like when it was finished. CodeCorrupt: that is not known any more.
func (h *held) manifest() (*manifest, error) {
	if h.compare == nil {
		return h.built, nil
	}
	return h.compare.manifest()
}

// verified waits for the comparison. CodeCorrupt: the entry is damaged and will not be found again.
func (h *held) verified(ctx context.Context) error {
	if h.compare == nil {
		return nil
	}
	return h.compare.wait(ctx)
}

// watched is verified for somebody who is in no hurry.
func (h *held) watched(ctx context.Context) error {
	if h.compare == nil {
		return nil
	}
	return h.compare.watch(ctx)
}

// release gives the entry up; a damaged one that nobody else uses is removed.
func (h *held) release() {
	if h.compare != nil {
		h.compare.end() // it marks the entry by its path, which is ours only as long as the lock is
	}
	if h.compare != nil && sallyport.CodeOf(h.compare.err) == sallyport.CodeCorrupt {
		discard(filepath.Dir(h.dir), h.lock)
		return
	}
	h.lock.Close()
}

// sound is obtain for what is read at once: the entry has been compared.
func (s *Store) sound(ctx context.Context, key string, anyCtime bool, build func(ctx context.Context, dir string) error) (h *held, err error) {
	for range 3 { // a damaged entry is not found twice, unless it cannot be marked
		if h, err = s.obtain(ctx, key, anyCtime, build); err != nil {
			return nil, err
		}
		if err = h.verified(ctx); err == nil {
			return h, nil
		}
		h.release()
		if sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			return nil, err
		}
	}
	return nil, err
}

// obtain finds an entry, whose comparison it begins, or builds one. build fills an empty folder.
func (s *Store) obtain(ctx context.Context, key string, anyCtime bool, build func(ctx context.Context, dir string) error) (*held, error) {
	if h, _, err := s.existing(key); h != nil || err != nil {
		return h, err
	}
	building, err := s.buildLock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer building.Close()
	h, next, err := s.existing(key) // somebody else may have built it meanwhile
	if h != nil || err != nil {
		return h, err
	}
	return s.build(ctx, fmt.Sprintf("%s.%d", key, next), anyCtime, build)
}

func (s *Store) cacheDir() string { return filepath.Join(s.dir, "cache") }

// existing returns the newest entry of key that is not known as damaged, and else the next free number.
func (s *Store) existing(key string) (*held, int, error) {
	names, err := os.ReadDir(s.cacheDir())
	if err != nil {
		return nil, 0, unwritable(err)
	}
	var numbers []int
	for _, d := range names {
		if rest, ok := strings.CutPrefix(d.Name(), key+"."); ok {
			if n, err := strconv.Atoi(rest); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	next := 1
	for _, n := range numbers {
		next = max(next, n+1)
		if h, err := s.hold(filepath.Join(s.cacheDir(), fmt.Sprintf("%s.%d", key, n))); h != nil || err != nil {
			return h, 0, err
		}
	}
	return nil, next, nil
}

// hold locks an entry and begins its comparison; nil if it is gone, being removed or known as damaged. What nobody
// uses and is damaged is removed. CodeUnavailable: nobody could look.
func (s *Store) hold(entry string) (h *held, err error) {
	err = patiently(context.Background(), func() error { h, err = tryHold(entry); return err })
	return h, err
}

// tryHold is hold once; its errors are those of a machine that lacks something.
func tryHold(entry string) (*held, error) {
	lock, err := os.OpenFile(filepath.Join(entry, "lock"), os.O_RDWR, 0)
	if lacks(err) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil || !stillThere(lock, entry) {
		lock.Close()
		return nil, nil
	}
	record := filepath.Join(entry, "manifest")
	f, err := os.Open(record)
	if lacks(err) {
		lock.Close()
		return nil, err
	}
	if err != nil {
		discard(entry, lock)
		return nil, nil
	}
	now := time.Now()
	os.Chtimes(lock.Name(), now, now) // for Evict: last used
	dir := filepath.Join(entry, "data")
	return &held{dir: dir, lock: lock, compare: compare(dir, f, func() { os.Remove(record) })}, nil
}

// stillThere: between open and flock the entry may have been renamed away.
func stillThere(lock *os.File, entry string) bool {
	a, err := lock.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(filepath.Join(entry, "lock"))
	return err == nil && os.SameFile(a, b)
}

// discard removes an entry if nobody uses it, and closes lock.
func discard(entry string, lock *os.File) bool {
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !stillThere(lock, entry) {
		return false
	}
	trash := filepath.Join(filepath.Dir(entry), fmt.Sprintf("trash-%s-%d", filepath.Base(entry), time.Now().UnixNano()))
	if os.Rename(entry, trash) != nil {
		return false
	}
	return os.RemoveAll(trash) == nil
}

func (s *Store) buildLock(ctx context.Context, key string) (*os.File, error) {
	dir := filepath.Join(s.dir, "building")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, unwritable(err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, &sallyport.Error{Op: "build checkout", Code: sallyport.CodeUnavailable, Message: "interrupted while another process builds it", Err: ctx.Err()}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Store) build(ctx context.Context, name string, anyCtime bool, build func(ctx context.Context, dir string) error) (*held, error) {
	tmp, err := os.MkdirTemp(s.cacheDir(), "new-")
	if err != nil {
		return nil, unwritable(err)
	}
	lock, err := os.OpenFile(filepath.Join(tmp, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(err)
	}
	fail := func(err error) (*held, error) {
		lock.Close()
		os.RemoveAll(tmp)
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return fail(unwritable(err))
	}
	data := filepath.Join(tmp, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return fail(unwritable(err))
	}
	if err := build(ctx, data); err != nil {
		return fail(err)
	}
	m, err := takeManifest(data, anyCtime)
	if err != nil {
		return fail(err)
	}
	// Commit point: the rename. Before it there is a folder that nobody looks for, after it an entry whose
	// bytes are on disk.
	if err := m.sync(data); err != nil {
		return fail(unwritable(err))
	}
	if err := writeDurably(filepath.Join(tmp, "manifest"), m.encode(), 0o600); err != nil {
		return fail(err)
	}
	entry := filepath.Join(s.cacheDir(), name)
	if err := os.Rename(tmp, entry); err != nil {
		return fail(unwritable(err))
	}
	return &held{dir: filepath.Join(entry, "data"), lock: lock, built: m}, syncDir(s.cacheDir())
}

// cached is one entry as Evict sees it.
type cached struct {
	path  string
	used  time.Time
	bytes int64
}

// Evict removes the entries that were used longest ago until the rest hold at most maxBytes, and what broken
// builds left behind. What is in use stays, whatever the bound. It returns how many bytes are left.
func (s *Store) Evict(ctx context.Context, maxBytes int64) (int64, error) {
	entries, broken, total, err := s.entries()
	if err != nil {
		return 0, err
	}
	for _, path := range broken {
		sweep(path)
	}
	for _, e := range entries {
		if total <= maxBytes || ctx.Err() != nil {
			break
		}
		if evictOne(e.path) {
			total -= e.bytes
		}
	}
	return total, nil
}

// Evictable is how many bytes Evict would remove now. Nothing is changed.
func (s *Store) Evictable(maxBytes int64) (int64, error) {
	entries, _, total, err := s.entries()
	var freed int64
	for _, e := range entries {
		if total-freed <= maxBytes {
			break
		}
		if unused(e.path) {
			freed += e.bytes
		}
	}
	return freed, err
}

// entries are those of the cache, used longest ago first, what broken builds left, and the bytes of the former.
func (s *Store) entries() (entries []cached, broken []string, total int64, err error) {
	names, err := os.ReadDir(s.cacheDir())
	if err != nil {
		return nil, nil, 0, unwritable(err)
	}
	for _, d := range names {
		path := filepath.Join(s.cacheDir(), d.Name())
		if strings.HasPrefix(d.Name(), "new-") || strings.HasPrefix(d.Name(), "trash-") {
			broken = append(broken, path)
			continue
		}
		e := cached{path: path}
		if fi, err := os.Stat(filepath.Join(path, "lock")); err == nil {
			e.used = fi.ModTime()
		}
		if m, err := readManifest(filepath.Join(path, "manifest")); err == nil {
			e.bytes = m.bytes
		}
		total += e.bytes
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b cached) int { return a.used.Compare(b.used) })
	return entries, broken, total, nil
}

// unused: evictOne would remove it.
func unused(path string) bool {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
	if err != nil {
		return os.IsNotExist(err)
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

func evictOne(path string) bool {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return os.RemoveAll(path) == nil // an entry without a lock can be held by nobody
	}
	if err != nil {
		return false // nobody could look
	}
	return discard(path, lock)
}

// sweep removes a half-built or half-removed folder unless its builder lives.
func sweep(path string) {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
	switch {
	case err == nil:
		discard(path, lock)
	case os.IsNotExist(err):
		if fi, serr := os.Stat(path); serr == nil && time.Since(fi.ModTime()) > time.Minute {
			os.RemoveAll(path) // the moment between making the folder and its lock has long passed
		}
	}
}
