// Package local makes sandboxes with nothing but this machine's kernel: namespaces, overlay mounts,
// Landlock, seccomp and cgroups; as root or as an ordinary user, with no daemon, image or account.
//
// Each Allocation is a folder under the factory's and one keeper process (package keeper) that outlives
// Mission Control. This package prepares what takes the caller's own powers (descriptors of mounts, ids,
// cgroups), hands it to a keeper, and finds and removes leftovers by exact identity: folder, pid with start time
// and boot id, cgroup by name. The contract it fulfils is internal/provider's.
package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/wire"
)

// Config says where this factory's local sandboxes live.
type Config struct {
	Factory sallyport.FactoryID
	Folder  string // 0700, on a local file system
	Keeper  string // executable
	Runner  string // executable
	// NoOverlay copies the workspace instead of mounting overlays, as happens by itself where none can be
	// mounted.
	NoOverlay bool
}

// Provider implements provider.Provider.
type Provider struct {
	cfg Config
	ids identities

	proving sync.Mutex // one proof of the resource limits at a time

	redirect struct { // the trial's outcome
		sync.Mutex
		tried bool
		err   error
	}

	sparing sync.Mutex
	spare   *spare // for the next Create; nil: none
}

// Open checks the configuration and the folder. CodeUnsupported names what is missing on this host.
func Open(cfg Config) (*Provider, error) {
	for _, f := range []string{cfg.Keeper, cfg.Runner} {
		if fi, err := os.Stat(f); err != nil || fi.Mode()&0o111 == 0 {
			return nil, &sallyport.Error{Op: "local provider", Code: sallyport.CodeUnsupported, Subject: f,
				Message: "expected an executable beside sallyport", Hint: "install all three programs: go install sallyport.dev/sallyport/cmd/..."}
		}
	}
	for _, d := range []string{cfg.Folder, filepath.Join(cfg.Folder, "allocations"), filepath.Join(cfg.Folder, "ids")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, stateError("local provider", d, err)
		}
	}
	return &Provider{cfg: cfg, ids: newIdentities(filepath.Join(cfg.Folder, "ids"))}, nil
}

func stateError(op, path string, err error) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Subject: path, Message: "the state folder cannot be used",
		Hint: "free space or permissions there, or choose another with SALLYPORT_STATE", Err: err}
}

// Name implements provider.Provider.
func (p *Provider) Name() string { return "local" }

// resource is the exact id: factory, allocation. Which processes it has is in its folder, with start time and
// boot id. A process of another boot cannot exist, so the boot is not part of the name: a restart of the
// machine leaves folders that can still be looked up, collected and removed.
func (p *Provider) resource(id sallyport.AllocationID) sallyport.ResourceID {
	return sallyport.ResourceID("local:" + string(p.cfg.Factory) + ":" + string(id))
}

// allocation is the inverse; an id of another factory is CodeUnavailable.
func (p *Provider) allocation(op string, id sallyport.ResourceID) (sallyport.AllocationID, error) {
	parts := strings.Split(string(id), ":")
	if len(parts) != 3 || parts[0] != "local" || sallyport.CheckID(sallyport.AllocationPrefix, parts[2]) != nil {
		return "", &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: string(id), Message: "expected local:FACTORY:ALLOCATION"}
	}
	if parts[1] != string(p.cfg.Factory) {
		return "", &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Subject: string(id), Message: "a sandbox of another factory; this one is " + string(p.cfg.Factory)}
	}
	return sallyport.AllocationID(parts[2]), nil
}

func (p *Provider) folder(id sallyport.AllocationID) string {
	return filepath.Join(p.cfg.Folder, "allocations", string(id))
}

// Lookup implements provider.Provider.
func (p *Provider) Lookup(_ context.Context, id sallyport.ResourceID) (provider.Status, error) {
	a, err := p.allocation("lookup", id)
	if err != nil {
		return provider.Status{}, err
	}
	return p.status(a)
}

func (p *Provider) status(a sallyport.AllocationID) (provider.Status, error) {
	dir := p.folder(a)
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		if left := strays(a); len(left) > 0 {
			return provider.Status{ID: p.resource(a), Allocation: a, Alive: true, HalfMade: true, Detail: "processes without a folder"}, nil
		}
		return provider.Status{}, &sallyport.Error{Op: "lookup", Code: sallyport.CodeNotFound, Subject: string(a), Message: "no folder, no process, no cgroup bears this id"}
	} else if err != nil {
		return provider.Status{}, stateError("lookup", dir, err)
	}
	st := provider.Status{ID: p.resource(a), Allocation: a, Alive: true}
	// Of thousands in a list nothing else is asked.
	var spec struct {
		Attempt sallyport.AttemptID `json:"attempt"`
	}
	if err := read(dir, fileSpec, &spec); err != nil {
		st.HalfMade, st.Detail = true, "its spec was not written"
		return st, nil
	}
	st.Attempt = spec.Attempt
	self, err := readSelf(dir)
	switch {
	case err != nil:
		st.HalfMade, st.Detail = true, "its keeper was not started"
	case !exists(dir, keeper.FileLayers):
		st.HalfMade, st.Detail = true, "its layers were not proved"
	case !self.Alive():
		st.Detail = "its keeper is gone; the workspace is held"
	default:
		st.Detail = fmt.Sprintf("keeper %d", self.PID)
	}
	return st, nil
}

// List implements provider.Provider.
func (p *Provider) List(context.Context) ([]provider.Status, error) {
	entries, err := os.ReadDir(filepath.Join(p.cfg.Folder, "allocations"))
	if err != nil {
		return nil, stateError("list", p.cfg.Folder, err)
	}
	var all []provider.Status
	for _, e := range entries {
		id := sallyport.AllocationID(e.Name())
		if sallyport.CheckID(sallyport.AllocationPrefix, e.Name()) != nil {
			continue
		}
		if p.onTrial(id) {
			continue // it has an authority of its own
		}
		st, err := p.status(id)
		if sallyport.CodeOf(err) == sallyport.CodeNotFound {
			continue // destroyed since the folder was read
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

// Connect implements provider.Provider. Where the keeper was ended from outside, a new one serves what is
// left: the recorded end, the output and the workspace.
func (p *Provider) Connect(ctx context.Context, id sallyport.ResourceID, auth provider.Auth) (provider.Wire, error) {
	a, err := p.allocation("connect", id)
	if err != nil {
		return nil, err
	}
	dir := p.folder(a)
	spec, err := readSpec(dir)
	if err != nil {
		if _, err := p.status(a); err != nil {
			return nil, err
		}
		return nil, halfMade(a, err)
	}
	if !kept(dir) {
		if err := p.salvage(ctx, a); err != nil {
			return nil, err
		}
	}
	c, err := dialIn(ctx, dir, socketWire)
	if ctx.Err() != nil {
		if err == nil {
			c.Close()
		}
		return nil, &sallyport.Error{Op: "connect", Code: sallyport.CodeUnknown, Subject: string(a), Message: "the caller stopped waiting", Err: ctx.Err()}
	}
	if err != nil {
		return nil, &sallyport.Error{Op: "connect", Code: sallyport.CodeUnavailable, Subject: string(a), Err: err}
	}
	w, err := wire.Dial(ctx, c, a, auth)
	if err != nil {
		return nil, err
	}
	return &localWire{Client: w, dir: dir, hello: wire.Hello{Allocation: a, Secret: auth.Secret, Fence: auth.Fence}, sockets: keeper.Sockets(spec)}, nil
}

// localWire adds to the byte stream what a shared kernel can: a socket handed out.
type localWire struct {
	*wire.Client
	dir   string
	hello wire.Hello
	// sockets is how many the way out consists of; 0: there is none.
	sockets int
}

// Egress implements provider.Wire: one message, with exactly the descriptors that the Spec asked for.
func (w *localWire) Egress(ctx context.Context) ([]*os.File, error) {
	if w.sockets == 0 {
		return nil, &sallyport.Error{Op: "egress", Code: sallyport.CodeUnsupported, Message: "this sandbox was made without a way out"}
	}
	fail := func(err error) ([]*os.File, error) {
		return nil, &sallyport.Error{Op: "egress", Code: sallyport.CodeUnavailable, Message: "the sockets of the sandbox's way out were not handed out", Err: err}
	}
	c, err := dialIn(ctx, w.dir, socketEgress)
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := wire.WriteHello(c, w.hello); err != nil {
		return fail(err)
	}
	files, err := takeSockets(c.(*net.UnixConn), w.sockets)
	if err != nil {
		return fail(err)
	}
	return files, nil
}

// takeSockets receives one message with exactly n descriptors, which are the caller's; of any other none is kept.
func takeSockets(c *net.UnixConn, n int) (files []*os.File, err error) {
	// Room for more than asked: what does not fit would stay open, and unknown, in older kernels.
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*(n+1)))
	_, k, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:k])
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // of another kind: then the count is wrong
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "egress"))
		}
	}
	if len(files) != n || len(messages) != 1 || flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("expected %d descriptors, got %d in %d messages", n, len(files), len(messages))
	}
	return files, nil
}

// The sockets in an allocation's folder.
const (
	socketWire   = "wire.sock"
	socketEgress = "egress.sock"
)

// dialIn connects to a socket in dir through a descriptor: a socket address has room for 107 bytes only.
func dialIn(ctx context.Context, dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
}

func listenIn(dir, name string) (*os.File, error) {
	_ = os.Remove(filepath.Join(dir, name))
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

// kept reports whether there is a keeper that answers. One on its way out has closed its sockets already.
func kept(dir string) bool {
	self, err := readSelf(dir)
	return err == nil && self.Alive() && !self.Ending()
}

func readSelf(dir string) (s keeper.Self, err error) {
	err = read(dir, keeper.FileSelf, &s)
	return s, err
}

// read takes into v what the file of an Allocation's folder says.
func read(dir, name string, v any) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
