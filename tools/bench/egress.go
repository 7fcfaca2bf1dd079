package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/tools/sandbox"
)

const (
	wayOutPort = 18790
	streamed   = 256 << 20 // bytes of one transfer
	trips      = 2000      // round trips of one measurement

	// clientRole is the first argument of the program that runs inside, and outside to compare with.
	clientRole = "egress-client"

	idleGateways = 500
)

// egress: what it costs that all which a sandbox sends is led to the gateway and carried on from there, against the same
// client outside, which connects to the same server over loopback.
func (b *bench) egress(ctx context.Context) error {
	heading(fmt.Sprintf("7. The way out: %d MiB and %d round trips through the redirect, against direct loopback", streamed>>20, trips))
	f, err := b.factory("egress")
	if err != nil {
		return err
	}
	if err := f.Redirects(ctx); err != nil {
		return err
	}
	server, err := listen(serveBytes)
	if err != nil {
		return err
	}
	defer server.Close()
	orders := make(chan *ordered, 1)
	control, err := listen(func(c net.Conn) { orders <- &ordered{c, bufio.NewReader(c)} })
	if err != nil {
		return err
	}
	defer control.Close()
	take := func() (*ordered, error) {
		select {
		case o := <-orders:
			return o, nil
		case <-time.After(20 * time.Second):
			return nil, errors.New("the client did not come")
		}
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}
	direct := exec.CommandContext(ctx, self, clientRole, control.Addr().String(), server.Addr().String())
	direct.Stderr = os.Stderr
	if err := direct.Start(); err != nil {
		return err
	}
	defer func() { _ = direct.Process.Kill(); _ = direct.Wait() }()
	outside, err := take()
	if err != nil {
		return err
	}
	end, err := b.inside(ctx, f, self, port(control), port(server))
	if err != nil {
		return err
	}
	defer end()
	inside, err := take()
	if err != nil {
		return err
	}
	// What any relay in user space costs, redirect and sandbox apart.
	relay, err := listen(func(c net.Conn) {
		up, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			c.Close()
			return
		}
		go func() { _, _ = io.Copy(c, up); c.Close() }()
		_, _ = io.Copy(up, c)
		up.Close()
	})
	if err != nil {
		return err
	}
	defer relay.Close()
	via := exec.CommandContext(ctx, self, clientRole, control.Addr().String(), relay.Addr().String())
	if err := via.Start(); err != nil {
		return err
	}
	defer func() { _ = via.Process.Kill(); _ = via.Wait() }()
	relayed, err := take()
	if err != nil {
		return err
	}
	for _, what := range []struct{ order, words string }{{"down", "into the sandbox"}, {"up", "out of the sandbox"}} {
		ours := contender{name: "redirected, " + what.words, once: inside.once(what.order)}
		plain := contender{name: "direct, the same way", once: outside.once(what.order)}
		bare := contender{name: "a bare relay over loopback, the same way", once: relayed.once(what.order)}
		all, err := race(ctx, b.rounds, 30*time.Second, ours, plain, bare)
		if err != nil {
			return err
		}
		show(all, ours, plain, bare)
		ratio("time of "+what.words+" / a bare relay's", all[ours.name], all[bare.name], 1)
		ratio("time of "+what.words+" / direct (throughput >= 0.7x)", all[ours.name], all[plain.name], 1.43)
	}
	ours := contender{name: fmt.Sprintf("redirected, %d round trips", trips), once: inside.once("trips")}
	plain := contender{name: "direct, the same", once: outside.once("trips")}
	all, err := race(ctx, b.rounds, 20*time.Second, ours, plain)
	if err != nil {
		return err
	}
	show(all, ours, plain)
	added := (all[ours.name].median() - all[plain.name].median()) / trips
	fmt.Printf("  -> %-66s %6s  aim <= 100µs  %s\n", "added to a round trip", added, met(added <= 100*time.Microsecond))
	return b.idle(ctx)
}

// inside starts the client in a sandbox whose gateway knows both servers by name.
func (b *bench) inside(ctx context.Context, f *factory, self string, control, server uint16) (end func(), err error) {
	base := filepath.Join(b.dir, "egress-base")
	if err := os.Mkdir(base, 0o755); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(base, "client"), data, 0o755)
	}
	if err != nil {
		return nil, err
	}
	spec, auth, err := f.Spec(provider.Workspace{Path: "/work", Layers: []string{base}}, sandbox.SystemMounts(), "/home/agent", provider.Command{
		Argv: []string{"/work/client", clientRole, fmt.Sprintf("control.test:%d", control), fmt.Sprintf("server.test:%d", server)}, Dir: "/work",
		Env: map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/agent"}})
	if err != nil {
		return nil, err
	}
	spec.EgressPort, spec.Redirect = wayOutPort, true
	id, err := f.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	var undo []func()
	end = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	undo = append(undo, func() { _ = f.Destroy(context.WithoutCancel(ctx), id) })
	fail := func(err error) (func(), error) { end(); return nil, err }
	w, err := f.Connect(ctx, id, auth)
	if err != nil {
		return fail(err)
	}
	undo = append(undo, func() { _ = w.Close() })
	files, err := w.Egress(ctx)
	if err != nil {
		return fail(err)
	}
	ln, questions, err := gateway.Redirected(files, wayOutPort)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		return fail(err)
	}
	home := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	g, err := gateway.Serve(ctx, ln, gateway.Config{Proxy: &gateway.ProxyConfig{Questions: questions,
		Rules:   []sallyport.EgressRule{{Host: "control.test", Port: control, Protocol: "tcp"}, {Host: "server.test", Port: server, Protocol: "tcp"}},
		Resolve: map[string]netip.AddrPort{"control.test": home, "server.test": home}}})
	if err != nil {
		return fail(err)
	}
	undo = append(undo, func() { _ = g.Close() })
	if err := w.Start(ctx); err != nil {
		return fail(err)
	}
	return end, nil
}

// idle measures what gateways cost that nobody uses yet.
func (b *bench) idle(ctx context.Context) error {
	var gateways []*gateway.Server
	defer func() {
		for _, g := range gateways {
			_ = g.Close()
		}
	}()
	if os.Geteuid() != 0 {
		fmt.Println("  memory of idle gateways: only root makes so many network namespaces in one process")
		return nil
	}
	debug.FreeOSMemory()
	before, err := resident()
	if err != nil {
		return err
	}
	for range idleGateways {
		files, err := namespaced()
		if err != nil {
			return err
		}
		ln, questions, err := gateway.Redirected(files, wayOutPort)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return err
		}
		g, err := gateway.Serve(ctx, ln, gateway.Config{Proxy: &gateway.ProxyConfig{Questions: questions, Rules: []sallyport.EgressRule{{Host: "a.test", Port: 443, Protocol: "tcp"}}}})
		if err != nil {
			return err
		}
		gateways = append(gateways, g)
	}
	time.Sleep(time.Second) // until all of their threads wait
	after, err := resident()
	if err != nil {
		return err
	}
	each := (after - before) / idleGateways
	fmt.Printf("  -> %-66s %4dKiB  aim <= 1024KiB  %s\n", fmt.Sprintf("memory of an idle gateway, of %d", idleGateways), each>>10, met(each <= 1<<20))
	return nil
}

// namespaced makes the sockets of a way out in a network namespace that lives as long as they do.
func namespaced() (files []*os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with us
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			var s int
			if s, err = unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
				return
			}
			files = append(files, os.NewFile(uintptr(s), "way out"))
			if err = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err == nil {
				err = unix.Bind(s, &unix.SockaddrInet6{Port: wayOutPort})
			}
			if err == nil && kind == unix.SOCK_STREAM {
				err = unix.Listen(s, 64)
			}
			if err != nil {
				return
			}
		}
	}()
	<-done
	return files, err
}

// resident is this process's memory in bytes.
func resident() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(b))
	if len(words) < 2 {
		return 0, fmt.Errorf("/proc/self/statm: %q", b)
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	return pages * int64(unix.Getpagesize()), err
}

func listen(serve func(net.Conn)) (net.Listener, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln, nil
}

func port(ln net.Listener) uint16 { return uint16(ln.Addr().(*net.TCPAddr).Port) }

// ordered is a client that measures what it is told to.
type ordered struct {
	net.Conn
	in *bufio.Reader
}

func (o *ordered) once(order string) func(context.Context) (time.Duration, error) {
	return func(context.Context) (time.Duration, error) {
		_ = o.SetDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprintln(o, order); err != nil {
			return 0, err
		}
		said, err := o.in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(said), 10, 64)
		return time.Duration(n), err
	}
}

// serveBytes does what the first byte of a connection says: 'd' and 'u' with a number of bytes, 'e' for an echo.
func serveBytes(c net.Conn) {
	defer c.Close()
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	n := int64(binary.BigEndian.Uint64(head[1:]))
	buf := make([]byte, 256<<10)
	switch head[0] {
	case 'd':
		for ; n > 0; n -= int64(len(buf)) {
			if _, err := c.Write(buf[:min(n, int64(len(buf)))]); err != nil {
				return
			}
		}
	case 'u':
		for n > 0 {
			k, err := c.Read(buf)
			if err != nil {
				return
			}
			n -= int64(k)
		}
		_, _ = c.Write([]byte{1})
	case 'e':
		for {
			k, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:k]); err != nil {
				return
			}
		}
	}
}

// client carries out orders until their connection ends.
func client(control, server string) error {
	c, err := net.Dial("tcp", control)
	if err != nil {
		return err
	}
	in := bufio.NewReader(c)
	for {
		order, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		d, err := measure(strings.TrimSpace(order), server)
		if err != nil {
			return err
		}
		fmt.Fprintln(c, d.Nanoseconds())
	}
}

func measure(order, server string) (time.Duration, error) {
	c, err := net.Dial("tcp", server)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	head := binary.BigEndian.AppendUint64([]byte{order[0]}, streamed)
	if order == "trips" {
		head[0] = 'e'
	}
	if _, err := c.Write(head); err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	began := time.Now()
	switch order {
	case "down":
		for n := 0; n < streamed; {
			k, err := c.Read(buf)
			if n += k; err != nil && n < streamed {
				return 0, err
			}
		}
	case "up":
		for n := 0; n < streamed; n += len(buf) {
			if _, err := c.Write(buf); err != nil {
				return 0, err
			}
		}
		_, err = io.ReadFull(c, buf[:1])
	case "trips":
		for range trips {
			if _, err := c.Write(buf[:64]); err != nil {
				return 0, err
			}
			if _, err := io.ReadFull(c, buf[:64]); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(began), err
}
