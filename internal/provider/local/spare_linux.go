package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/runner"
)

// spare is a keeper, with its runner, that waits for an Allocation. It holds nothing but ids and namespaces, is
// part of no record, and ends with this process, by the end of its socket. Every sandbox begins as one.
type spare struct {
	ids    mapping
	users  *users
	socket *os.File // SOCK_SEQPACKET to the keeper

	up      chan struct{} // closed once it waits, or cannot
	err     error         // why it cannot; after up
	process *os.Process   // the keeper's; after up; nil: it was not started
	gone    chan struct{} // closed when that has ended
}

// newSpare starts one under ids, in the background.
func (p *Provider) newSpare(ids mapping) (*spare, error) {
	s := &spare{ids: ids, users: newUsers(p.cfg.Runner, ids)}
	if err := p.begin(s); err != nil {
		s.users.close()
		return nil, err
	}
	return s, nil
}

// begin starts the keeper of s, in the background.
func (p *Provider) begin(s *spare) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("a socket to the keeper: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	_ = unix.SetNonblock(pair[0], true) // so that waiting for it can be given up
	s.socket, s.up, s.gone = os.NewFile(uintptr(pair[0]), "keeper"), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.up)
		s.process, s.err = p.startKeeper(s.ids, theirs, s.gone)
		theirs.Close()
		if s.err == nil {
			s.err = s.hear(context.Background(), goneBefore)
		}
	}()
	return nil
}

// startKeeper starts a keeper that waits on control. gone is closed when it has ended.
func (p *Provider) startKeeper(ids mapping, control *os.File, gone chan<- struct{}) (*os.Process, error) {
	// It may move us to another cgroup, in which the keeper must be born.
	detect()
	// What a shell left open in us must not live on in a keeper.
	if err := contain.SealDescriptors(); err != nil {
		return nil, err
	}
	runnerFile, err := os.Open(p.cfg.Runner)
	if err != nil {
		return nil, err
	}
	defer runnerFile.Close()
	keeperFile, err := os.Open(p.cfg.Keeper)
	if err != nil {
		return nil, err
	}
	defer keeperFile.Close()
	// By descriptor: the keeper's uid may not walk to where root has installed its programs.
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", keeper.FDExecutable))
	cmd.Args = []string{keeperName, runner.Unnamed, string(p.cfg.Factory)}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{control, runnerFile, keeperFile}
	cmd.SysProcAttr = ids.attributes(keeper.Capabilities())
	if err := cmd.Start(); err != nil {
		return nil, &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Message: "the keeper could not be started in a user namespace", Hint: "see `sallyport doctor`", Err: err}
	}
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	return cmd.Process, nil
}

const keeperName = "sallyport-keeper"

// ready waits until the spare waits.
func (s *spare) ready(ctx context.Context) error {
	select {
	case <-s.up:
		return s.err
	case <-ctx.Done():
		return stoppedWaiting(ctx)
	}
}

// isUp reports whether s waits, or has failed.
func (s *spare) isUp() bool {
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

// settle gives s its Allocation's id and its place. One that ended while it waited, which nobody may have seen yet, has a
// keeper once more: it was given nothing.
func (p *Provider) settle(ctx context.Context, s *spare, a sallyport.AllocationID, place keeper.Place) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if place.Give(s.socket, a) == nil {
		return nil
	}
	s.socket.Close()
	if err := p.begin(s); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := place.Give(s.socket, a); err != nil {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeUnknown, Message: goneBefore, Err: err}
	}
	return nil
}

// end ends a spare of which no sandbox came. Left alone, one that is stopped would keep the lock.
func (s *spare) end() {
	if !s.isUp() || s.process == nil {
		return // given nothing, it ends with its socket
	}
	_ = s.process.Kill()
	<-s.gone
}

// hand gives a settled spare what its sandbox is made of.
func (s *spare) hand(ctx context.Context, h keeper.Handed) error {
	if err := runner.Hand(s.socket, h.Files()); err != nil {
		return s.refused(ctx, err)
	}
	return nil
}

// tell gives it the rest, and waits until the layers are proved.
func (s *spare) tell(ctx context.Context, t keeper.Told) error {
	if err := runner.Hand(s.socket, t.Files()); err != nil {
		return s.refused(ctx, err)
	}
	return s.hear(ctx, goneBefore)
}

const goneBefore = "the keeper ended before the sandbox was ready"

// refused is why a keeper takes nothing more: its last word, or that it has none.
func (s *spare) refused(ctx context.Context, err error) error {
	if herr := s.hear(ctx, goneBefore); herr != nil {
		return herr
	}
	return &sallyport.Error{Op: "create", Code: sallyport.CodeUnknown, Message: goneBefore, Err: err}
}

// hear waits for the keeper's next word; gone says what its end means.
func (s *spare) hear(ctx context.Context, gone string) error {
	stop := context.AfterFunc(ctx, func() { _ = s.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	b, _, err := runner.Hear(s.socket)
	if ctx.Err() != nil {
		return stoppedWaiting(ctx)
	}
	var r keeper.Ready
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeUnknown, Message: gone, Err: err}
	}
	if r.Error != "" {
		return &sallyport.Error{Op: "create", Code: sallyport.ParseCode(r.Code), Message: r.Error, Hint: "see `sallyport doctor`"}
	}
	return nil
}

func stoppedWaiting(ctx context.Context) error {
	return &sallyport.Error{Op: "create", Code: sallyport.CodeUnknown, Message: "stopped waiting while the sandbox was made", Err: ctx.Err()}
}

// close ends a spare that was handed nothing, and parts from one that was.
func (s *spare) close() {
	s.socket.Close()
	s.users.close()
}

// Warm implements provider.Warmer: a spare is ready when it returns.
func (p *Provider) Warm(ctx context.Context) error {
	p.sparing.Lock()
	if p.spare != nil && p.spare.broken() {
		p.spare.close()
		p.spare = nil
	}
	if p.spare == nil {
		s, err := p.newSpare(p.ids.pick())
		if err != nil {
			p.sparing.Unlock()
			return err
		}
		p.spare = s
	}
	s := p.spare
	p.sparing.Unlock()
	return s.ready(ctx)
}

// broken reports a spare that has failed or is dead already.
func (s *spare) broken() bool {
	if !s.isUp() {
		return false
	}
	if s.err != nil {
		return true
	}
	c, err := s.socket.SyscallConn()
	if err != nil {
		return true
	}
	dead := false
	// It has said that it waits and says nothing more by itself: what can be read is its end.
	err = c.Control(func(fd uintptr) {
		n, perr := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		dead = n > 0 || perr != nil && !errors.Is(perr, unix.EINTR)
	})
	return err != nil || dead
}

// claimTries is ample: the range is far larger than what runs at once.
const claimTries = 100

// spareFor is a spare whose ids are a's: those that it has, or new ones.
func (p *Provider) spareFor(a sallyport.AllocationID) (*spare, error) {
	ids, found, err := p.ids.of(a)
	if err != nil {
		return nil, err
	}
	if found {
		return p.newSpare(ids)
	}
	for range claimTries {
		s, err := p.takeSpare()
		if err != nil {
			return nil, err
		}
		won, err := p.ids.claim(s.ids, a)
		if err == nil && won {
			return s, nil
		}
		s.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, &sallyport.Error{Op: "take ids", Code: sallyport.CodeExhausted, Message: "every host id that was tried is in use"}
}

// takeSpare is the one that Warm made, or a new one.
func (p *Provider) takeSpare() (*spare, error) {
	p.sparing.Lock()
	s := p.spare
	p.spare = nil
	p.sparing.Unlock()
	if s != nil && !s.broken() {
		return s, nil
	}
	if s != nil {
		s.close()
	}
	return p.newSpare(p.ids.pick())
}
