package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/agent/agenttest"
)

// srtVersion is that of @anthropic-ai/sandbox-runtime on npm.
const srtVersion = "0.0.83"

// column is one sandbox, started by one user.
type column struct {
	id, title string
	how       string // the command line, for the page; WORK and PROBE stand for folder and program
	uid       int    // whose home and repository
	command   func(ctx context.Context, h *host, argv []string) (*exec.Cmd, error)
	// output finds what the probe printed where it is not what the command printed; nil: it is.
	output func(h *host, printed []byte) ([]byte, error)
}

// peers is where they lie inside of our namespaces, whoever their cache belongs to.
const peers = "/run/peers"

const (
	bwrapLine = "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind WORK WORK --chdir WORK --unshare-all --die-with-parent --new-session --cap-drop ALL PROBE"
	codexLine = "codex sandbox -c sandbox_mode=\"workspace-write\" PROBE"
	srtLine   = "srt --settings SETTINGS PROBE"
	// The settings of srt's own manual, with the key's folder that its defaults leave readable denied.
	srtSettings  = `{"filesystem": {"denyRead": ["~/.ssh"], "allowWrite": ["."], "denyWrite": []}, "network": {"allowedDomains": [], "deniedDomains": []}}`
	dockerLine   = "docker run --rm -i -v WORK:WORK -w WORK IMAGE PROBE"
	hardenedLine = "docker run --rm -i --user 1000:1000 --cap-drop ALL --security-opt no-new-privileges --network none --read-only --tmpfs /tmp:size=64m --pids-limit 256 --memory 512m --memory-swap 512m -v WORK:WORK -w WORK IMAGE PROBE"
	oursLine     = "sallyport run -m TASK -- PROBE"
	image        = "sallyport-containment"
)

// columns in the order of the table.
var columns = []column{
	// The control: what is not allowed here says nothing about anybody's sandbox.
	{"none-root", "no sandbox, root", "PROBE", 0, line("PROBE"), nil},
	{"none-user", "no sandbox, user", "PROBE", ordinary, line("PROBE"), nil},
	{"bwrap-root", "bwrap, root", bwrapLine, 0, line(bwrapLine), nil},
	{"bwrap-user", "bwrap, user", bwrapLine, ordinary, line(bwrapLine), nil},
	{"codex-root", "codex, root", codexLine, 0, line(codexLine), nil},
	{"codex-user", "codex, user", codexLine, ordinary, line(codexLine), nil},
	{"srt-root", "srt, root", srtLine, 0, line(srtLine), nil},
	{"srt-user", "srt, user", srtLine, ordinary, line(srtLine), nil},
	{"docker", "docker", dockerLine, 0, line(dockerLine), nil},
	{"docker-hardened", "docker, hardened", hardenedLine, ordinary, line(hardenedLine), nil},
	{"sallyport-root", "**sallyport, root**", oursLine, 0, ours, agentLog},
	{"sallyport-user", "**sallyport, user**", oursLine, ordinary, ours, agentLog},
}

// line starts what a line of the page says.
func line(template string) func(context.Context, *host, []string) (*exec.Cmd, error) {
	return func(ctx context.Context, h *host, argv []string) (*exec.Cmd, error) {
		var args []string
		for _, w := range strings.Fields(template) {
			switch w {
			case "PROBE":
				args = append(args, argv...)
				continue
			case "SETTINGS":
				w = h.path("srt-settings.json")
			case "IMAGE":
				w = image
			}
			args = append(args, strings.ReplaceAll(w, "WORK", h.work()))
		}
		if args[0] == argv[0] {
			return h.command(ctx, h.work(), args[0], args[1:]...), nil
		}
		name := map[string]string{"codex": peers + "/codex/codex", "srt": peers + "/srt/node_modules/.bin/srt"}[args[0]]
		if name == "" {
			name = args[0]
		}
		cmd := h.command(ctx, h.work(), name, args[1:]...)
		if args[0] == "docker" {
			cmd.SysProcAttr.Credential = nil // who may speak to the engine is root
		}
		return cmd, nil
	}
}

// ours is the main job, by its own program.
func ours(ctx context.Context, h *host, argv []string) (*exec.Cmd, error) {
	argv = append([]string{"./x"}, argv[1:]...)
	args := append([]string{"run", "--json", "--name", "containment-" + h.token, "-m", "the containment probe", "--"}, argv...)
	return h.command(ctx, h.work(), h.path("programs/sallyport"), args...), nil
}

// agentLog is what the agent of the Attempt in the report said.
func agentLog(h *host, printed []byte) ([]byte, error) {
	var report struct {
		Attempt string `json:"attempt"`
	}
	if err := json.Unmarshal(printed, &report); err != nil || report.Attempt == "" {
		return nil, fmt.Errorf("no report of an Attempt: %.400q %w", printed, errors.Join(err))
	}
	return os.ReadFile(filepath.Join(h.state(), "attempts", report.Attempt, "agent.log"))
}

// missing says why a peer cannot be run here; "": it can. It is called outside of our namespaces, where there is a network.
func (c column) missing() string {
	kind, _, _ := strings.Cut(c.id, "-")
	need := map[string][]string{"bwrap": {"bwrap"}, "codex": {"bwrap", "node"}, "srt": {"bwrap", "socat", "rg", "node"}, "docker": {"docker", "dockerd", "containerd", "runc"}}[kind]
	for _, program := range need {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	var err error
	switch kind {
	case "codex":
		_, err = codexFolder()
	case "srt":
		_, err = srtFolder()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// codexFolder has the native program of the npm package.
func codexFolder() (string, error) {
	bin, err := agenttest.Programs()
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(bin, "..", "@openai", "codex-linux-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("no native program of codex for this machine in %s", bin)
	}
	return filepath.Dir(found[0]), nil
}

// srtFolder has the npm package, installed once per user into the cache.
func srtFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "sallyport-test", "npm", "sandbox-runtime-"+srtVersion)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	cmd := exec.Command("npm", "install", "--prefix", temp, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "@anthropic-ai/sandbox-runtime@"+srtVersion)
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm could not install srt: %w: %.300s", err, out)
	}
	return dir, errors.Join(os.Chmod(temp, 0o755), os.Rename(temp, dir))
}

// show puts the peers to where every user sees them, and nobody can change the cache.
func show(folders map[string]string) error {
	for name, from := range folders {
		to := filepath.Join(peers, name)
		if err := errors.Join(os.MkdirAll(to, 0o755), unix.Mount(from, to, "", unix.MS_BIND, ""), unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	return nil
}

// engine is a Docker engine of our own: data, sockets and processes are this run's, and end with it.
func (h *host) engine(ctx context.Context) (stop func(), err error) {
	dir := h.path("engine")
	if err := os.MkdirAll(dir+"/config", 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(dir + "/log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	h.uid = 0
	cmd := h.command(context.Background(), dir, "dockerd", "--data-root", dir+"/data", "--exec-root", dir+"/exec", "-p", dir+"/pid", "-H", "unix://"+dir+"/docker.sock")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		hard := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		hard.Stop()
		for _, controller := range []string{"*/docker", "docker"} { // empty now
			left, _ := filepath.Glob("/sys/fs/cgroup/" + controller)
			for _, d := range left {
				_ = unix.Rmdir(d)
			}
		}
	}
	for range 150 {
		if h.command(ctx, dir, "docker", "version").Run() == nil {
			return stop, h.image(ctx)
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	text, _ := os.ReadFile(dir + "/log")
	return nil, fmt.Errorf("the engine does not start: %.600s", text[max(0, len(text)-600):])
}

// image is a root with nothing in it but users, folders and the set-uid program at its place.
func (h *host) image(ctx context.Context) error {
	suid, err := os.ReadFile(h.path("suid/probe"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, mode int64, kind byte, body []byte) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: mode, Typeflag: kind, Size: int64(len(body))}))
		_, e := w.Write(body)
		err = errors.Join(err, e)
	}
	for _, d := range []string{"etc", "root", "usr", "usr/local", "usr/local/bin", "var"} {
		add(d, 0o755, tar.TypeDir, nil)
	}
	add("tmp", 0o1777, tar.TypeDir, nil)
	add("etc/passwd", 0o644, tar.TypeReg, []byte("root:x:0:0::/root:/bin/sh\n"))
	add(strings.TrimPrefix(h.path("suid/probe"), "/"), 0o4755, tar.TypeReg, suid)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	cmd := h.command(ctx, h.dir, "docker", "import", "-", image)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// versions of what was run, one line each.
func (h *host) versions(ctx context.Context) (lines []string) {
	ask := func(name string, args ...string) {
		h.uid = 0
		out, err := h.command(ctx, h.dir, name, args...).Output()
		if err == nil {
			lines = append(lines, strings.TrimSpace(string(out)))
		}
	}
	ask("bwrap", "--version")
	ask(peers+"/codex/codex", "--version")
	if _, err := os.Stat(peers + "/srt"); err == nil {
		lines = append(lines, "srt (@anthropic-ai/sandbox-runtime) "+srtVersion)
	}
	ask("docker", "version", "--format", "docker engine {{.Server.Version}}, client {{.Client.Version}}")
	ask("runc", "--version")
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, "\n")
	}
	return lines
}
