package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mitmproxyBatch is how many requests of a batch it is given: it needs many times as long for each.
const mitmproxyBatch = 400

// mitmproxy is Debian's mitmdump, writing nothing, with as many connections as the others.
func (b *bench) mitmproxy(ctx context.Context, s *httptest.Server) (*proxyProcess, error) {
	dir := filepath.Join(b.dir, "mitmproxy")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := ln.Addr().String()
	ln.Close()
	here := strconv.Itoa(int(portOf(s)))
	roots, err := rootsFile(b.dir, s)
	if err != nil {
		return nil, err
	}
	_, listen, _ := strings.Cut(at, ":")
	cmd := exec.CommandContext(ctx, "mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", listen, "--set", "confdir="+dir,
		"--set", "connection_strategy=lazy", "--set", "ssl_verify_upstream_trusted_ca="+roots, "--set", "flow_detail=0",
		"--map-remote", "|https://"+requestedHost+":"+here+"/|https://127.0.0.1:"+here+"/")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the peer mitmproxy (Debian: apt-get install mitmproxy): %w", err)
	}
	p := &proxyProcess{cmd: cmd, end: func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }}
	p.used = func() (time.Duration, error) { return processorTimeOf(cmd.Process.Pid) }
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		authority, err := os.ReadFile(filepath.Join(dir, "mitmproxy-ca-cert.pem"))
		if err == nil {
			var c net.Conn
			if c, err = net.Dial("tcp", at); err == nil {
				c.Close()
				p.clients = throughProxy(at, authority, false)
				return p, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			p.end()
			return nil, err
		}
		if time.Now().After(until) || ctx.Err() != nil {
			p.end()
			return nil, fmt.Errorf("mitmproxy does not listen: %w", err)
		}
	}
}

// processorTimeOf is the time of all of a process's threads, in clock ticks of 10 ms (proc(5)).
func processorTimeOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
