package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport/tools/guest/talk"
)

// serve runs commands until the port is gone.
func serve() error {
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	var mu sync.Mutex // one answer at a time
	answer := func(a talk.Answer) {
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewEncoder(port).Encode(a); err != nil {
			fmt.Println("guest: answer:", err)
		}
	}
	answer(talk.Answer{ID: talk.Ready})
	in := bufio.NewReaderSize(port, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var c talk.Command
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("command: %w", err)
		}
		go func() { answer(run(c)) }()
	}
}

// openPort finds the serial port by its name.
func openPort() (*os.File, error) {
	for range 500 {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, _ := os.ReadFile(n); strings.TrimSpace(string(b)) == talk.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_RDWR, 0)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.New("no serial port named " + talk.Port)
}

// run runs one command. Born in its cgroup: a user could not be moved there afterwards by itself.
func run(c talk.Command) talk.Answer {
	a := talk.Answer{ID: c.ID, Exit: -1}
	if len(c.Argv) == 0 {
		a.Err = "no program"
		return a
	}
	var out, errs capped
	cmd := &exec.Cmd{Path: c.Argv[0], Args: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: bytes.NewReader(c.Stdin), Stdout: &out, Stderr: &errs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: c.UID, Gid: c.GID}}
	// A daemon may keep the streams open; the command has ended all the same.
	cmd.WaitDelay = 2 * time.Second
	if c.Cgroup != "" {
		dir, err := os.Open(c.Cgroup)
		if err != nil {
			a.Err = err.Error()
			return a
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		a.Err = err.Error()
		return a
	}
	kill := time.AfterFunc(c.Timeout, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	a.TimedOut = !kill.Stop()
	a.Took = time.Since(start)
	a.Stdout, a.Stderr = out.bytes(), errs.bytes()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		a.Err = fmt.Sprint(err)
	case ws.Signaled():
		a.Signal = int(ws.Signal())
	default:
		a.Exit = ws.ExitStatus()
	}
	return a
}

// capped keeps the first talk.OutputCap bytes.
type capped struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (w *capped) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Write(p[:min(len(p), talk.OutputCap-w.kept.Len())])
	return len(p), nil
}

func (w *capped) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.kept.Bytes())
}
