package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain/cgroup"
)

// scopePatience bounds what entering the scope may take: a manager that does not answer must not keep a run from
// starting, only from having what it would have given.
const scopePatience = 5 * time.Second

// enterScope moves this process into the user's Scope, which it makes or joins; the keepers that are started
// afterwards are born there and stay when this process has gone. Repeated by a process that is inside: nil.
//
// It speaks to the manager's own socket: that needs no message bus of the user's, and no variable that a cron job
// or `su` might lack. The move across what different managers own is the system's manager's to grant.
func enterScope() error {
	deadline := time.Now().Add(scopePatience)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	m, err := dialManager(ctx, filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "systemd/private"))
	if err != nil {
		return scopeError("no service manager of the user answers", err)
	}
	defer m.Close()
	for {
		// Two that start it at once, one that joins while it ends: what counts is where the kernel says we are.
		err := m.start(ctx)
		if managerSays(err, "UnitExists") {
			err = m.join(ctx)
		}
		if err == nil && settled(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return scopeError("the user's service manager did not move this process", errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func scopeError(message string, err error) error {
	return &sallyport.Error{Op: "enter scope", Code: sallyport.CodeUnavailable, Subject: cgroup.Scope, Message: message, Err: err}
}

// manager is a connection to the user's service manager.
type manager struct{ *dbus.Conn }

func dialManager(ctx context.Context, socket string) (manager, error) {
	uid := strconv.Itoa(os.Geteuid())
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return manager{}, err
	}
	if err := isOwn(c); err != nil {
		c.Close()
		return manager{}, err
	}
	conn, err := dbus.NewConn(c, dbus.WithContext(ctx))
	if err != nil {
		c.Close()
		return manager{}, err
	}
	m := manager{conn}
	if err := m.Auth([]dbus.Auth{dbus.AuthExternal(uid)}); err != nil {
		m.Close()
		return manager{}, err
	}
	return m, nil
}

// isOwn: whoever listens there must be this very user. Where no systemd has made the user's folder, anybody may have,
// and what it says would be read without a bound.
func isOwn(c net.Conn) error {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if perr == nil && int(peer.Uid) != os.Geteuid() {
		perr = fmt.Errorf("uid %d listens there", peer.Uid)
	}
	return perr
}

func (m manager) call(ctx context.Context, method string, args ...any) error {
	const name = "org.freedesktop.systemd1"
	return m.Object(name, "/org/freedesktop/systemd1").CallWithContext(ctx, name+".Manager."+method, 0, args...).Err
}

// property is D-Bus's (sv).
type property struct {
	Name  string
	Value dbus.Variant
}

// start makes the scope with this process in it.
func (m manager) start(ctx context.Context) error {
	type auxiliary struct {
		Name       string
		Properties []property
	}
	return m.call(ctx, "StartTransientUnit", cgroup.Scope, "fail", []property{
		{"Description", dbus.MakeVariant("Sallyport's drivers and sandboxes")},
		{"Slice", dbus.MakeVariant(cgroup.ScopeSlice)},
		{"Delegate", dbus.MakeVariant(true)},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(os.Getpid())})},
		// Each sandbox has its own limit; the sum of them is nobody's.
		{"TasksMax", dbus.MakeVariant(uint64(math.MaxUint64))},
		// A scope that ended badly would keep its name, and nobody could start it again.
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}, []auxiliary{})
}

// join enters a scope that is there, into the leaf at once: its top holds no process once controllers are on.
func (m manager) join(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(cgroup.ScopeFolder(), cgroup.ScopeLeaf), 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return m.call(ctx, "AttachProcessesToUnit", cgroup.Scope, "/"+cgroup.ScopeLeaf, []uint32{uint32(os.Getpid())})
}

// settled waits until this process is in the scope: the manager's answer says that it has begun to see to it.
func settled(ctx context.Context) bool {
	for range 100 {
		if cgroup.InScope() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

func managerSays(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == "org.freedesktop.systemd1."+name
}
