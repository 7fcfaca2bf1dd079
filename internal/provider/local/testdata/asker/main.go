// Asker asks for things from inside a sandbox, heeding no proxy setting, and says what came of it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := 1; i+1 < len(os.Args); i += 2 {
		start := time.Now()
		said := act(ctx, os.Args[i], os.Args[i+1])
		if d := time.Since(start); d > 4*time.Second {
			said += fmt.Sprintf(" (after %v)", d)
		}
		fmt.Printf("%s %s: %s\n", os.Args[i], os.Args[i+1], said)
	}
}

func act(ctx context.Context, verb, what string) string {
	switch verb {
	case "get":
		return get(ctx, what)
	case "line":
		return line(ctx, what)
	case "udp":
		return datagram(what)
	case "resolve":
		return resolve(ctx, what)
	case "txt":
		all, err := net.DefaultResolver.LookupTXT(ctx, what)
		return words(fmt.Sprint(len(all)), err)
	case "flush":
		return flush()
	}
	return "no such verb"
}

func get(ctx context.Context, url string) string {
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err.Error()
	}
	res, err := client.Do(r)
	if err != nil {
		return words("", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 200))
	return words(fmt.Sprintf("%d %s", res.StatusCode, b), err)
}

// line hears what a server says that speaks first.
func line(ctx context.Context, to string) string {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return words("", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	said, err := bufio.NewReader(c).ReadString('\n')
	return words(said, err)
}

func datagram(to string) string {
	c, err := net.Dial("udp", to)
	if err != nil {
		return words("", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := c.Write([]byte("QUIC")); err != nil {
		return words("", err)
	}
	n, err := c.Read(make([]byte, 100))
	return words(fmt.Sprint(n), err)
}

func resolve(ctx context.Context, name string) string {
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	return words(fmt.Sprint(all), err)
}

// flush tries to be rid of the redirect: by nf_tables, and by the routes.
func flush() string {
	out := ""
	for _, protocol := range []int{syscall.NETLINK_NETFILTER, syscall.NETLINK_ROUTE} {
		fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, protocol)
		if err != nil {
			out += err.Error() + "; "
			continue
		}
		// RTM_DELROUTE of local 0.0.0.0/0 in the table local, acknowledged.
		m := []byte{28, 0, 0, 0, 25, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, syscall.AF_INET, 0, 0, 0, 255, 0, 255, 2, 0, 0, 0, 0}
		if err := syscall.Sendto(fd, m, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
			out += err.Error() + "; "
			continue
		}
		b := make([]byte, 4096)
		n, _, err := syscall.Recvfrom(fd, b, 0)
		if err != nil || n < 20 {
			out += "no answer; "
			continue
		}
		e := int32(b[16]) | int32(b[17])<<8 | int32(b[18])<<16 | int32(b[19])<<24
		out += syscall.Errno(-e).Error() + "; "
	}
	return out
}

// words names the errors that tests look for.
func words(said string, err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return said
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, io.EOF):
		return "closed " + said
	}
	return err.Error()
}
