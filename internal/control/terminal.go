package control

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/provider"
)

// Terminal is a person's terminal. Out gets raw bytes of the sandbox: filter them before a tty.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Size    func() (cols, rows int)
	Resized <-chan struct{} // nil: In is no keyboard, and its end is the end of what is typed
}

// The frames from a terminal to the driver: kind, length (2 bytes, big endian), payload.
const (
	frameInput  = 'i'
	frameResize = 'r' // columns, rows: 2 bytes each
)

func (c *Control) terminalSocket(id sallyport.AttemptID) string {
	return filepath.Join(c.attemptFolder(id), "terminal.sock")
}

// serveTerminal lets persons attach to the command's terminal while the driver lives. Only this user can
// reach the socket: its folder is 0700.
func (d *driver) serveTerminal(ctx context.Context, f frozen, w provider.Wire) func() {
	if !f.Spec.Command.Terminal {
		return func() {}
	}
	l, err := listenShort(d.c.terminalSocket(d.id))
	if err != nil {
		return func() {}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.serveOne(ctx, c, w)
		}
	}()
	return func() { l.Close() }
}

// listenShort listens under a path that may be longer than a socket address can hold.
func listenShort(path string) (net.Listener, error) {
	_ = os.Remove(path)
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

func dialShort(path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

func (d *driver) serveOne(ctx context.Context, c net.Conn, w provider.Wire) {
	defer c.Close()
	out, err := d.shown(c)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		defer cancel()
		for {
			kind, p, err := readTerminalFrame(c)
			if err != nil {
				return
			}
			switch {
			case kind == frameInput:
				err = w.Input(ctx, p)
			case kind == frameResize && len(p) == 4:
				err = w.Resize(ctx, int(binary.BigEndian.Uint16(p)), int(binary.BigEndian.Uint16(p[2:])))
			}
			if err != nil {
				return
			}
		}
	}()
	_, err = w.Output(ctx, 0, out)
	_ = out.Close()
	if err != nil { // the person has left: what they typed before is still on its way
		select {
		case <-typed:
		case <-time.After(lastKeys):
		}
	}
}

// lastKeys bounds the wait for what somebody typed who has left.
const lastKeys = 2 * time.Second

func readTerminalFrame(r io.Reader) (byte, []byte, error) {
	var h [3]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	p := make([]byte, binary.BigEndian.Uint16(h[1:]))
	_, err := io.ReadFull(r, p)
	return h[0], p, err
}

func writeTerminalFrame(w io.Writer, kind byte, p []byte) error {
	b := make([]byte, 3+len(p))
	b[0] = kind
	binary.BigEndian.PutUint16(b[1:], uint16(len(p)))
	copy(b[3:], p)
	_, err := w.Write(b)
	return err
}

// Attach joins a person's terminal to the command's until it ends, the input ends or ctx does. Where the driver
// dies it waits for the next one, which somebody must start: Follow does. CodeConflict: the Attempt has no
// terminal, or does not run.
func (c *Control) Attach(ctx context.Context, id string, t Terminal) error {
	at, err := c.Attempt(ctx, id)
	if err != nil {
		return err
	}
	keys := pump(t.In)
	for first := true; ; first = false {
		conn, fence, err := c.dialTerminal(ctx, at)
		if !first && sallyport.CodeOf(err) == sallyport.CodeConflict {
			return nil // it has ended meanwhile
		}
		if err != nil {
			return err
		}
		if !first {
			_, _ = io.WriteString(t.Out, "\x1b[H\x1b[2J") // all of the output comes again
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		shown := &screenWriter{w: t.Out}
		err = relay(conn, keys, Terminal{In: t.In, Out: shown, Size: t.Size, Resized: t.Resized})
		stop()
		conn.Close()
		if ctx.Err() != nil || shown.err != nil {
			return err
		}
		if over, err := c.commandOver(ctx, at.Report.Attempt, fence); over || err != nil {
			return err
		}
	}
}

// screenWriter keeps what the person's own side refused, which is no driver's end.
type screenWriter struct {
	w   io.Writer
	err error
}

func (s *screenWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// overPatience bounds the wait for a sign of what ended a session.
const overPatience = 5 * time.Second

// commandOver tells a command's end from its driver's, or from that of the connection alone, once the driver's side has ended.
// Neither shows at once: a driver that dies closes its sockets before it is dead, and one whose command has ended records that
// later. The next driver may have the lease already, and be preparing: it is not the one that had it under fence.
func (c *Control) commandOver(ctx context.Context, id sallyport.AttemptID, fence int64) (bool, error) {
	for end := time.Now().Add(overPatience); ; {
		now, err := c.journal.Attempt(ctx, id)
		if err != nil || commandEnded(now.Report.State) {
			return true, err
		}
		if free(now.Lease) || now.Lease.Fence != fence || time.Now().After(end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(followPoll):
		}
	}
}

func commandEnded(s sallyport.AttemptState) bool {
	return s != sallyport.AttemptQueued && s != sallyport.AttemptPreparing && s != sallyport.AttemptRunning
}

// dialTerminal waits until the Attempt's command runs. The fence is of the lease before the call: of an earlier driver
// than the one that answers, if another took over between the two, which costs one more call and no session.
func (c *Control) dialTerminal(ctx context.Context, at journal.Attempt) (net.Conn, int64, error) {
	for {
		now, err := c.journal.Attempt(ctx, at.Report.Attempt)
		if err != nil {
			return nil, 0, err
		}
		m, err := c.manifest(now.Report.Manifest)
		if err != nil {
			return nil, 0, err
		}
		if !m.Terminal || now.Report.State.Ended() {
			return nil, 0, &sallyport.Error{Op: "attach", Code: sallyport.CodeConflict, Subject: string(now.Report.Attempt), Message: "it has no terminal to attach to", Hint: "`sallyport logs -f` follows its output"}
		}
		if conn, err := dialShort(c.terminalSocket(now.Report.Attempt)); err == nil {
			if now.Lease == nil {
				return conn, 0, nil
			}
			return conn, now.Lease.Fence, nil
		}
		if commandEnded(now.Report.State) {
			return nil, 0, &sallyport.Error{Op: "attach", Code: sallyport.CodeConflict, Subject: string(now.Report.Attempt), Message: "its command has ended"}
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(followPoll):
		}
	}
}

// keyboard passes a person's keys to whichever sandbox is connected; between two of them keys are lost. A read
// of a terminal cannot be taken back, so there is one reader for all connections.
type keyboard struct {
	mu sync.Mutex
	to net.Conn
}

func pump(in io.Reader) *keyboard {
	k := new(keyboard)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			if n > 0 {
				k.send(frameInput, buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

func (k *keyboard) connect(to net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to = to
}

// send may block while the sandbox does not read; closing the connection ends that.
func (k *keyboard) send(kind byte, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.to != nil {
		_ = writeTerminalFrame(k.to, kind, p)
	}
}

// relay moves bytes both ways until the sandbox's side ends.
func relay(conn net.Conn, keys *keyboard, t Terminal) error {
	keys.connect(conn)
	resize := func() {
		if cols, rows := t.Size(); cols > 0 && rows > 0 {
			var p [4]byte
			binary.BigEndian.PutUint16(p[:], uint16(cols))
			binary.BigEndian.PutUint16(p[2:], uint16(rows))
			keys.send(frameResize, p[:])
		}
	}
	resize()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-t.Resized:
				resize()
			}
		}
	}()
	_, err := io.Copy(t.Out, conn)
	return err
}

// Shell opens a terminal in a fresh sandbox on an Attempt's tree. Nothing comes back from it.
func (c *Control) Shell(ctx context.Context, id string, t Terminal) (int, error) {
	exit := provider.Exit{Code: -1}
	err := c.borrowed(ctx, id, func(ctx context.Context, d *driver, at journal.Attempt) error {
		ws, co, err := d.workspace(ctx, at.Imported.Tree)
		if err != nil {
			return err
		}
		caches, err := d.caches("")
		if err != nil {
			return err
		}
		if caches, err = d.showSetup(ctx, at.Imported.Tree, &ws, caches); err != nil {
			return err
		}
		spec := provider.Spec{Purpose: sallyport.PurposeShell, Workspace: ws, Mounts: d.m.Mounts, Caches: caches, Home: d.m.Home, Limits: d.m.Limits,
			Command: provider.Command{Argv: []string{"sh", "-i"}, Dir: d.m.Repository, Env: d.environment(map[string]string{"TERM": "xterm-256color", "PS1": "(sandbox) $ "}), Terminal: true}}
		f, err := d.intend(ctx, spec, "shell", held{})
		if err != nil {
			return err
		}
		rid, err := d.makeOn(ctx, f, co)
		if err != nil {
			return err
		}
		err = d.standingOn(ctx, co, func(ctx context.Context) (err error) { exit, err = d.shellIn(ctx, f, rid, t); return err })
		if derr := d.destroy(context.WithoutCancel(ctx), f.Spec.Allocation, rid, "the shell has ended"); err == nil {
			err = derr
		}
		return err
	})
	return exit.Code, err
}

func (d *driver) shellIn(ctx context.Context, f frozen, rid sallyport.ResourceID, t Terminal) (provider.Exit, error) {
	w, done, err := d.connect(ctx, f, rid)
	if err != nil {
		return provider.Exit{}, err
	}
	defer done()
	if err := w.Start(ctx); err != nil {
		return provider.Exit{}, err
	}
	ours, theirs := net.Pipe()
	go d.serveOne(ctx, theirs, w)
	in := t.In
	if t.Resized == nil {
		in = &piped{r: in}
	}
	if err := relay(ours, pump(in), t); err != nil {
		return provider.Exit{}, err
	}
	return d.ended(ctx, w)
}

// endKey is what a terminal turns into an end of input.
const endKey = "\x04"

// endAgain is how long a program may take to notice the end of its input before it is told again: the one
// before it may have met a program that has ended meanwhile.
const endAgain = 500 * time.Millisecond

// piped are commands from a pipe for a sandbox's terminal, which has no end of its own: it is typed.
type piped struct {
	r    io.Reader
	over bool
}

func (p *piped) Read(b []byte) (int, error) {
	if p.over {
		time.Sleep(endAgain)
		return copy(b, endKey), nil
	}
	n, err := p.r.Read(b)
	if err == nil || n > 0 {
		return n, nil
	}
	p.over = true
	return copy(b, endKey), nil
}
