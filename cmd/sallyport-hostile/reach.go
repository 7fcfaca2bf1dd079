package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to what is given as pairs of network and address, and has won with each that answers.
func dial(args []string) {
	for i := 0; i+1 < len(args); i += 2 {
		c, err := net.DialTimeout(args[i], args[i+1], 3*time.Second)
		if err != nil {
			fmt.Println(err)
			continue
		}
		if fake(c) {
			fmt.Println(args[i+1], "is the sandbox's own way out, which ended it")
		} else {
			won("connected to %s", args[i+1])
		}
		c.Close()
	}
}

// fake reports whether who accepted ends the connection without a word to a request that nobody lists.
func fake(c net.Conn) bool {
	if _, ok := c.(*net.TCPConn); !ok {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	_, _ = fmt.Fprintf(c, "GET /leak HTTP/1.1\r\nHost: nobody.invalid\r\n\r\n")
	var b [12]byte
	n, _ := c.Read(b[:])
	return n == 0 || string(b[:n]) == "HTTP/1.1 403" || string(b[:n]) == "HTTP/1.1 400"
}

// swap has a folder and a link change places until it is ended: swap NAME TARGET.
func swap(args []string) {
	name, other := args[0], args[0]+".link"
	check(os.MkdirAll(name, 0o755))
	check(os.Symlink(args[1], other))
	for {
		_ = unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	}
}
