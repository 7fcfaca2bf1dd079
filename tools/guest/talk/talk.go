// Package talk is what a test and its guest say to each other over one serial port: a line of JSON each way
// for each command. Both ends are ours and trusted; it is not a protocol for sandboxes (internal/wire is).
package talk

import "time"

// Port is the name of the serial port in the guest.
const Port = "sallyport.guest"

// Manager is a word on the kernel's command line, which makes it a variable in process 1's environment: "systemd"
// asks for that as process 1.
const Manager = "guest_manager"

// Ready is the ID of the answer that the guest sends unasked, once, when it can take commands.
const Ready = 0

// Command is a program to run in the guest. Several may be under way; the answers come as they end.
type Command struct {
	ID      int           `json:"id"` // from 1; chosen by the test
	Argv    []string      `json:"argv"`
	Env     []string      `json:"env"`
	Dir     string        `json:"dir"` // absolute
	UID     uint32        `json:"uid"`
	GID     uint32        `json:"gid"`
	Cgroup  string        `json:"cgroup"`  // folder of the cgroup to be born in; "": the root's
	Stdin   []byte        `json:"stdin"`   //
	Timeout time.Duration `json:"timeout"` // then its process group is killed
}

// Answer is how a command ended.
type Answer struct {
	ID       int           `json:"id"`
	Exit     int           `json:"exit"`   // -1: ended by Signal, or never started
	Signal   int           `json:"signal"` // 0: exited
	TimedOut bool          `json:"timed_out"`
	Stdout   []byte        `json:"stdout"` // capped
	Stderr   []byte        `json:"stderr"` // capped
	Took     time.Duration `json:"took"`
	Err      string        `json:"err"` // why it was not started
}

// OutputCap bounds what is kept of each stream of a command, in bytes; the rest is dropped.
const OutputCap = 4 << 20
