package runner

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mostHanded is how many descriptors one message carries; the kernel takes 253.
const mostHanded = 200

// maxMessage bounds what one message may hold.
const maxMessage = 128 << 10

// Hand sends files over a SOCK_SEQPACKET socket to whoever calls Take. They stay the caller's.
func Hand(socket *os.File, files []*os.File) error {
	for {
		part := files[:min(len(files), mostHanded)]
		files = files[len(part):]
		fds := make([]int, len(part))
		for i, f := range part {
			fds[i] = int(f.Fd())
		}
		more := byte(0)
		if len(files) > 0 {
			more = 1
		}
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		if err := send(socket, []byte{more}, rights); err != nil {
			return err
		}
		if more == 0 {
			return nil
		}
	}
}

// Take receives the files of one Hand; the caller closes them.
func Take(socket *os.File) ([]*os.File, error) {
	var files []*os.File
	for {
		b, got, err := receive(socket, 1, mostHanded)
		files = append(files, got...)
		if err == nil && (b[0] > 1) {
			err = fmt.Errorf("expected a message of descriptors, got %d bytes", len(b))
		}
		if err != nil {
			closeAll(files)
			return nil, err
		}
		if b[0] == 0 {
			return files, nil
		}
	}
}

// Say sends one message, of at least one byte, with at most mostHanded files; nil is none. They stay the caller's.
func Say(socket *os.File, b []byte, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		if f != nil {
			fds = append(fds, int(f.Fd()))
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return send(socket, b, rights)
}

// Hear receives one message with at most one file (nil: none). A closed other end is an error.
func Hear(socket *os.File) ([]byte, *os.File, error) {
	b, files, err := receive(socket, maxMessage, 1)
	if err != nil || len(files) == 0 {
		return b, nil, err
	}
	return b, files[0], nil
}

// HearMost receives one message with at most so many files, which the caller closes. A closed other end is an error.
func HearMost(socket *os.File, most int) ([]byte, []*os.File, error) {
	return receive(socket, maxMessage, most)
}

func send(socket *os.File, b, rights []byte) error {
	c, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = c.Write(func(fd uintptr) bool {
		for {
			serr = unix.Sendmsg(int(fd), b, rights, nil, unix.MSG_NOSIGNAL)
			if serr != unix.EINTR {
				return serr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = serr
	}
	return err
}

// receive takes one message of at most size bytes.
func receive(socket *os.File, size, most int) ([]byte, []*os.File, error) {
	c, err := socket.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	b, oob := make([]byte, size), make([]byte, unix.CmsgSpace(4*most))
	var n, oobn, flags int
	var rerr error
	err = c.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
			if rerr != unix.EINTR {
				return rerr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = rerr
	}
	if err != nil {
		return nil, nil, err
	}
	files, err := rights(oob[:oobn])
	switch {
	case err != nil:
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(files) > most:
		err = fmt.Errorf("a message that is too large")
	case n == 0:
		err = fmt.Errorf("the other end is gone")
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	return b[:n], files, nil
}

// rights are the files that came with a message.
func rights(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
