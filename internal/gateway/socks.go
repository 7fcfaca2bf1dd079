package gateway

import (
	"errors"
	"net"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// The replies of RFC 1928 section 6.
const (
	socksDone        = 0
	socksGeneral     = 1
	socksDenied      = 2
	socksUnreachable = 4
	socksRefused     = 5
	socksCommand     = 7
)

// socks serves one SOCKS 5 connection, which it owns.
func (s *Server) socks(c net.Conn) {
	if !s.crew.enter() {
		_ = c.Close()
		return
	}
	defer s.crew.leave()
	stop := closeWith(s.live, c)
	defer stop()
	e := Event{Method: "SOCKS", client: c}
	start := time.Now()
	defer func() {
		e.Took = time.Since(start)
		s.meter.record(e)
	}()
	_ = c.SetDeadline(start.Add(s.proxy.pace.header))
	in := &socksReader{conn: c}
	if err := in.message(greeting); err != nil {
		s.socksEnd(c, &e, in, err, []byte{5, 0xff})
		return
	}
	if _, err := c.Write([]byte{5, 0}); err != nil {
		s.socksEnd(c, &e, in, err, nil)
		return
	}
	if err := in.message(in.request); err != nil {
		s.socksEnd(c, &e, in, err, socksReply(in.badRequest()))
		return
	}
	e.Target = egress.HostPort(in.name, in.port)
	way, upstream, err := s.reach(s.live, in.name, in.port)
	if err != nil {
		s.socksEnd(c, &e, in, err, socksReply(socksCode(err)))
		return
	}
	if _, err := c.Write(socksReply(socksDone)); err != nil {
		closeAll(upstream)
		s.socksEnd(c, &e, in, err, nil)
		return
	}
	if len(in.buf) > 0 {
		c = &begun{Conn: c, first: in.buf}
	}
	stop() // from here on the connection has another owner
	s.carry(c, upstream, way, &e)
}

// socksEnd answers and closes.
func (s *Server) socksEnd(c net.Conn, e *Event, in *socksReader, err error, reply []byte) {
	if sallyport.CodeOf(err) == sallyport.CodeInvalid {
		err = unnamed("SOCKS request", err)
	}
	s.broke(e, err)
	if reply != nil {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(reply)
	}
	leave(c)
}

func socksReply(code byte) []byte { return []byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0} }

func socksCode(err error) byte {
	var no *denial
	var dns *net.DNSError
	switch {
	case errors.As(err, &no):
		return socksDenied
	case errors.As(err, &dns):
		return socksUnreachable
	}
	return socksRefused
}

// socksReader reads the two messages of a client, which may come in any pieces.
type socksReader struct {
	conn net.Conn
	buf  []byte // not taken yet
	name egress.Name
	port uint16
}

// message reads until parse takes some bytes off the front.
func (r *socksReader) message(parse func([]byte) (int, error)) error {
	for {
		n, err := parse(r.buf)
		if err == nil {
			r.buf = r.buf[n:]
			return nil
		}
		if !errors.Is(err, egress.ErrMore) {
			return err
		}
		var piece [512]byte
		k, err := r.conn.Read(piece[:])
		r.buf = append(r.buf, piece[:k]...)
		if k == 0 && err != nil {
			return err
		}
	}
}

func greeting(b []byte) (int, error) { return egress.SOCKSGreeting(b) }

func (r *socksReader) request(b []byte) (n int, err error) {
	r.name, r.port, n, err = egress.SOCKS(b)
	return n, err
}

// badRequest is the reply to a request that was not read.
func (r *socksReader) badRequest() byte {
	if len(r.buf) > 1 && r.buf[1] != 1 {
		return socksCommand
	}
	return socksGeneral
}
