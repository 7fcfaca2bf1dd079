// Scripted serves package model on a loopback address, for trying an agent without a model:
//
//	SCRIPTED_CREDENTIAL=sk-scripted-credential scripted -listen 127.0.0.1:8080 -command 'echo hi > proof.txt'
//
// It prints its address, then one line of JSON for each call. The credential comes from the environment, as
// arguments are visible to every user of the machine.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"sallyport.dev/sallyport/tools/scripted/model"
)

type list []string

func (l *list) String() string     { return fmt.Sprint(*l) }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scripted:", err)
		os.Exit(1)
	}
}

func run(args []string, out *os.File) error {
	flags := flag.NewFlagSet("scripted", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "loopback address to serve on")
	closing := flags.String("closing", "SCRIPTED-DONE", "text of the last turn")
	var commands, after list
	flags.Var(&commands, "command", "shell command of the next turn (repeatable)")
	flags.Var(&after, "after-feedback", "the same, when the agent was given feedback (repeatable)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	credential := os.Getenv("SCRIPTED_CREDENTIAL")
	if credential == "" {
		return errors.New("set SCRIPTED_CREDENTIAL to the only credential that is to be accepted")
	}
	ln, err := loopback(*listen)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	fmt.Fprintf(out, "http://%s\n", ln.Addr())
	endpoint := model.New(model.Script{Commands: commands, AfterFeedback: after, Closing: *closing,
		Credential: credential, Placeholder: os.Getenv("SCRIPTED_PLACEHOLDER")},
		func(c model.Call) {
			mu.Lock()
			defer mu.Unlock()
			_ = lines.Encode(c)
		})
	server := &http.Server{Handler: endpoint, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(ln)
}

func loopback(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = ln.Close()
		return nil, fmt.Errorf("%s is not a loopback address", address)
	}
	return ln, nil
}
