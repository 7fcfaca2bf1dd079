package providertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"time"
)

// answer accepts one connection on a listening socket and answers "ping" with "pong".
func answer(f *os.File) error {
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return err
	}
	defer l.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || line != "ping\n" {
		return fmt.Errorf("got %q: %w", line, err)
	}
	_, err = c.Write([]byte("pong\n"))
	return err
}
