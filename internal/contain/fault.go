package contain

import (
	"errors"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

func invalid(op, subject, message string, err error) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: subject, Message: message, Err: err}
}

// step names a confinement step that the kernel refused. Whoever sees it must not start anything.
func step(subject, message, hint string, errno error) error {
	code := sallyport.CodeDenied
	if errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EOPNOTSUPP) {
		code = sallyport.CodeUnsupported
	}
	return &sallyport.Error{Op: "confine thread", Code: code, Subject: subject, Message: message, Hint: hint, Err: errno}
}

// raw wraps the errno of a raw system call: nil for none.
func raw(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
