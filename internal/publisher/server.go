package publisher

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/publication"
)

const (
	// maxConnections is how many requests are served at once; more wait to be accepted.
	maxConnections = 8
	// requestTimeout is for a request to arrive whole.
	requestTimeout = 5 * time.Minute
	// publishTimeout is for all of a publication, a slow forge included.
	publishTimeout = 15 * time.Minute
)

// Listen makes the socket, mode 0660. What is left of a Publisher that was killed is replaced; one that lives is CodeConflict.
func Listen(path string) (*net.UnixListener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, &sallyport.Error{Op: "listen", Code: sallyport.CodeConflict, Subject: path, Message: "another Publisher is listening there"}
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() != os.ModeSocket {
		return nil, &sallyport.Error{Op: "listen", Code: sallyport.CodeInvalid, Subject: path, Message: "something that is no socket lies there", Hint: "give another path as listen:"}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, unavailable("listen", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, unavailable("listen", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		ln.Close()
		return nil, unavailable("listen", err)
	}
	return ln, nil
}

// Serve answers requests until ctx is done, and then waits for those that are under way.
func (p *Publisher) Serve(ctx context.Context, ln *net.UnixListener) error {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, maxConnections)
	for {
		room <- struct{}{}
		c, err := ln.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return unavailable("accept", err)
		}
		all.Go(func() { defer func() { <-room }(); p.Answer(context.WithoutCancel(ctx), c) })
	}
}

// Answer serves the one request of a connection, and closes it. Who asks is what the kernel says.
func (p *Publisher) Answer(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	receipt, err := p.answer(ctx, c)
	a := publication.Answer{Receipt: string(receipt)}
	if err != nil {
		a = publication.Answer{Error: publication.Refuse(err)}
	}
	_ = c.SetWriteDeadline(time.Now().Add(requestTimeout))
	_ = publication.WriteAnswer(c, a) // whoever asked may be gone; the ledger has it
}

func (p *Publisher) answer(ctx context.Context, c *net.UnixConn) ([]byte, error) {
	peer, err := peerOf(c)
	if err != nil {
		return nil, err
	}
	separation := "user"
	if int(peer.Uid) == os.Geteuid() {
		separation = "none"
	} else if !slices.Contains(p.config.Peers, int(peer.Uid)) {
		return nil, no("peer", "user id %d is none of this Publisher's peers", peer.Uid)
	}
	_ = c.SetReadDeadline(time.Now().Add(requestTimeout))
	q, err := publication.ReadRequest(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return p.Publish(ctx, q, c, separation)
}

// peerOf is who is at the other end, by the kernel's word at the moment of connecting.
func peerOf(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, unavailable("look at the peer", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || cerr != nil {
		return nil, unavailable("look at the peer", errors.Join(err, cerr))
	}
	return cred, nil
}
