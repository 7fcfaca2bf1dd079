package gateway

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
)

// What a sandbox hands out is a listener and a socket for names of one namespace that is not ours, or it is refused.
func TestRedirectedTakesTwoSocketsOfOneNamespace(t *testing.T) {
	user := gatewaytest.Users()[0]
	ns, other := gatewaytest.Start(t, user), gatewaytest.Start(t, user)
	// The kernel may give one of these a peer or a name that the test then waits for: each case has its own port.
	port := testPort
	socket := func(ns *gatewaytest.Namespace, kind string) *os.File { return ns.Socket(t, kind, port) }
	for _, c := range []struct {
		name  string
		files func() []*os.File
		says  string
	}{
		{"none", func() []*os.File { return nil }, "got 0"},
		{"one", func() []*os.File { return []*os.File{socket(ns, "wide")} }, "got 1"},
		{"three", func() []*os.File { w := socket(ns, "wide"); return []*os.File{w, w, w} }, "got 3"},
		{"nil", func() []*os.File { return []*os.File{socket(ns, "wide"), nil} }, "expected a listening socket"},
		{"the reverse", func() []*os.File { return []*os.File{socket(ns, "wide-udp"), socket(ns, "wide")} }, "not a datagram socket"},
		{"two listeners", func() []*os.File { w := socket(ns, "wide"); return []*os.File{w, w} }, "not a datagram socket"},
		{"another family", func() []*os.File { return []*os.File{socket(ns, "wide"), socket(ns, "udp")} }, "not an IPv6 socket"},
		{"a Unix socket", func() []*os.File { return []*os.File{socket(ns, "unix"), socket(ns, "wide-udp")} }, "family 1"},
		{"a pipe", func() []*os.File { return []*os.File{socket(ns, "pipe"), socket(ns, "wide-udp")} }, "not a socket"},
		{"mptcp", func() []*os.File { return []*os.File{socket(ns, "mptcp"), socket(ns, "udp")} }, "not a TCP socket"},
		{"for IPv6 alone", func() []*os.File { return []*os.File{socket(ns, "wide"), socket(ns, "only6-udp")} }, "IPv6 alone"},
		{"with a peer", func() []*os.File { return []*os.File{socket(ns, "wide"), socket(ns, "peer-udp")} }, "has a peer"},
		{"two namespaces", func() []*os.File { return []*os.File{socket(ns, "wide"), socket(other, "wide-udp")} }, "two network namespaces"},
		{"narrow for both families", func() []*os.File { return []*os.File{socket(ns, "tcp6"), socket(ns, "wide-udp")} }, "not bound to [::]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port += 20
			files := c.files()
			ln, q, err := Redirected(files, port)
			if err == nil {
				_, _ = ln.Close(), q.Close()
				t.Fatal("it was taken")
			}
			if sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%v), expected denied with %q", err, sallyport.CodeOf(err), c.says)
			}
		})
	}
	port += 20
	for _, kinds := range [][]string{{"wide", "wide-udp"}, {"listen", "udp"}} {
		port += 20
		files := []*os.File{socket(ns, kinds[0]), socket(ns, kinds[1])}
		if _, _, err := Redirected(files, port+1); sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("another port: %v", err)
		}
		ln, q, err := Redirected(files, port)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Redirected(files, port); err == nil || !strings.Contains(err.Error(), "another live listener") {
			t.Errorf("taken twice: %v", err)
		}
		if ln.Close() != nil || q.Close() != nil || q.Close() != nil {
			t.Error("Close")
		}
	}
}

// Nothing that is sent to the socket for names, and nothing that is done to it, holds up its end or its owner.
func TestQuestionsEndAndDoNotSpin(t *testing.T) {
	ns := gatewaytest.Start(t, gatewaytest.Users()[0])
	files := []*os.File{ns.Socket(t, "wide", testPort), ns.Socket(t, "wide-udp", testPort)}
	ln, q, err := Redirected(files, testPort)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ended := make(chan struct{})
	go func() { q.serve(func([]byte, netip.AddrPort) ([]byte, error) { return nil, nil }); close(ended) }()
	// As the keeper does at the command's end, or a hostile sandbox at any time: poll then says for ever that something is there.
	raw, err := files[1].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetNonblock(int(fd), false)
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
	})
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	time.Sleep(300 * time.Millisecond)
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	if used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()); used > 150*time.Millisecond {
		t.Errorf("it took %v of processor time within 300ms", used)
	}
	start := time.Now()
	_ = q.Close()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("serve did not end")
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v", took)
	}
}

func question(t *testing.T, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answerOf(t *testing.T, s *Server, name string, kind dnsmessage.Type) (dnsmessage.RCode, netip.Addr) {
	t.Helper()
	b, err := s.answerName(question(t, name, kind), netip.MustParseAddrPort("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			return m.RCode, netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			return m.RCode, netip.AddrFrom16(body.AAAA)
		}
	}
	return m.RCode, netip.Addr{}
}

// A listed name has an address, another does not exist and is a refusal once; whoever learns is told an address of
// every name. After Revoke no name exists.
func TestNamesAreAnsweredFromTheRules(t *testing.T) {
	for _, learn := range []bool{false, true} {
		var asked []string
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ns := gatewaytest.Start(t, gatewaytest.Users()[0])
		_, q, err := Redirected([]*os.File{ns.Socket(t, "wide", testPort), ns.Socket(t, "wide-udp", testPort)}, testPort)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Serve(t.Context(), ln, Config{Proxy: &ProxyConfig{Questions: q, Learn: learn, Authority: authority(t), Rules: []egress.Rule{{Host: "a.example", Port: 5, Protocol: egress.TCP}},
			Lookup:  nil,
			Refused: func(d Denied) { asked = append(asked, d.Name.String()+" "+string(d.Reason)) }}})
		if err != nil {
			t.Fatal(err)
		}
		if code, a := answerOf(t, s, "A.example.", dnsmessage.TypeA); code != 0 || a != netip.MustParseAddr("198.18.0.16") {
			t.Errorf("a listed name: %v %v", code, a)
		}
		for range 3 {
			code, a := answerOf(t, s, "b.example.", dnsmessage.TypeA)
			if (code == 0 && a.IsValid()) != learn {
				t.Errorf("learn %v: a name that is not listed: %v %v", learn, code, a)
			}
		}
		if code, _ := answerOf(t, s, "1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR); !learn && code != dnsmessage.RCodeNameError {
			t.Errorf("the name of an address: %v", code)
		}
		if want := []string{"b.example host-not-listed"}; !learn && !slices.Equal(asked, want) || learn && len(asked) > 0 {
			t.Errorf("learn %v: refused were %q", learn, asked)
		}
		s.Revoke()
		if code, a := answerOf(t, s, "a.example.", dnsmessage.TypeA); code != dnsmessage.RCodeNameError || a.IsValid() {
			t.Errorf("after Revoke: %v %v", code, a)
		}
		_ = s.Close()
	}
}
