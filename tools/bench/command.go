package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// firstByte is how long a command takes, from before its start, until it writes mark to its standard output
// (or standard error with onErr). It then waits for the command's end.
func firstByte(ctx context.Context, cmd *exec.Cmd, mark string, onErr bool) (time.Duration, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var other bytes.Buffer
	if cmd.Stdout, cmd.Stderr = w, io.Writer(&other); onErr {
		cmd.Stdout, cmd.Stderr = &other, w
	}
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	began := time.Now()
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 0, err
	}
	took, said, err := await(r, mark, began)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	werr := cmd.Wait()
	if took == 0 {
		return 0, fmt.Errorf("%s never said %q: %w\n%s%s", strings.Join(cmd.Args, " "), mark, errors.Join(err, werr), said, other.String())
	}
	return took, err
}

func await(r io.Reader, mark string, began time.Time) (time.Duration, []byte, error) {
	var said []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		said = append(said, buf[:n]...)
		if bytes.Contains(said, []byte(mark)) {
			return time.Since(began), said, nil
		}
		if err == io.EOF {
			return 0, said, nil
		}
		if err != nil {
			return 0, said, err
		}
	}
}

// whole is how long a command takes from start to end.
func whole(cmd *exec.Cmd) (time.Duration, error) {
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return took, nil
}

// git runs git in dir with no configuration of the machine's.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@example.invalid", "GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@example.invalid")
	_, err := whole(cmd)
	return err
}
