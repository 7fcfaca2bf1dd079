package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sallyport.dev/sallyport/internal/agent/agenttest"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/tools/sandbox"
)

// start: how long until the agent's first instruction, seen by its first byte of output.
func (b *bench) start(ctx context.Context) error {
	heading("1. Start to the agent's first instruction, all layers proved (/bin/echo, first byte)")
	f, err := b.factory("start")
	if err != nil {
		return err
	}
	base := filepath.Join(b.dir, "empty")
	if err := os.Mkdir(base, 0o755); err != nil {
		return err
	}
	codex, err := b.codex()
	if err != nil {
		return err
	}
	repo, err := b.smallRepository(ctx)
	if err != nil {
		return err
	}
	echo := func(ctx context.Context, laps *[]lap) (time.Duration, error) {
		spec, auth, err := f.Spec(provider.Workspace{Path: "/work", Layers: []string{base}}, sandbox.SystemMounts(), "/home/agent", provider.Command{
			Argv: []string{"/bin/echo", "hi"}, Dir: "/work", Env: map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/agent"}})
		if err != nil {
			return 0, err
		}
		l, err := f.use(ctx, spec, auth)
		*laps = append(*laps, l)
		return l.first, err
	}
	var laps, coldLaps []lap
	// A driver has a spare made while it checks out and journals, so that is not in the time.
	ours := contender{name: "sandbox: Create + Connect + Start, with a spare ready", once: func(ctx context.Context) (time.Duration, error) {
		if err := f.Warm(ctx); err != nil {
			return 0, err
		}
		return echo(ctx, &laps)
	}}
	cold := contender{name: "the same, cold: no spare", once: func(ctx context.Context) (time.Duration, error) { return echo(ctx, &coldLaps) }}
	bwrap := contender{name: "bwrap --unshare-all", once: func(ctx context.Context) (time.Duration, error) {
		return firstByte(ctx, exec.CommandContext(ctx, "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "/bin/echo", "hi"), "hi", false)
	}}
	peer := contender{name: "codex sandbox (native binary)", once: func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, codex, "sandbox", "/bin/echo", "hi")
		// Its home must not lie below /tmp, and it writes there.
		cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "CODEX_HOME=" + b.home}, base
		return firstByte(ctx, cmd, "hi", false)
	}}
	whole := b.untilAgent("sallyport run, whole program, until the agent's first byte", repo)
	cs := []contender{ours, cold, whole, bwrap, peer}
	all, err := race(ctx, b.rounds, 45*time.Second, cs...)
	if err != nil {
		return err
	}
	show(all, cs...)
	fmt.Println("  with a spare ready:")
	showLaps(laps[1:])
	fmt.Println("  cold:")
	showLaps(coldLaps[1:])
	ratio("sandbox with a spare ready / bwrap", all[ours.name], all[bwrap.name], 2)
	ratio("sandbox with a spare ready / codex sandbox", all[ours.name], all[peer.name], 0.3)
	ratio("sandbox, cold / bwrap", all[cold.name], all[bwrap.name], 2)
	ratio("sandbox, cold / codex sandbox", all[cold.name], all[peer.name], 0.3)
	ratio("sallyport run (git, journal, evidence and all) / codex sandbox", all[whole.name], all[peer.name], 1)
	return nil
}

func showLaps(laps []lap) {
	parts := []contender{{name: "   of it: Create"}, {name: "   of it: Connect"}, {name: "   of it: Start"}, {name: "   afterwards: Destroy, absence proved"}}
	all := map[string]times{}
	for _, l := range laps {
		for i, d := range []time.Duration{l.create, l.connect, l.start, l.destroy} {
			all[parts[i].name] = append(all[parts[i].name], d)
		}
	}
	show(all, parts...)
}

// untilAgent runs the whole program in repo until its agent's first word is on the screen.
func (b *bench) untilAgent(name, repo string) contender {
	n := 0
	return contender{name: name, once: func(ctx context.Context) (time.Duration, error) {
		n++
		// The word is put together inside, so that no echo of the command line can be taken for it.
		cmd := b.sallyport(ctx, repo, "run", "--name", fmt.Sprintf("%s-%d", filepath.Base(repo), n), "--", "sh", "-c", "echo agent-says-$((6*7))")
		return firstByte(ctx, cmd, "agent-says-42", true)
	}}
}

// sallyport is the program itself on a state folder of this run.
func (b *bench) sallyport(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.programs, "sallyport"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SALLYPORT_STATE="+filepath.Join(b.dir, "state"))
	return cmd
}

// smallRepository has one file.
func (b *bench) smallRepository(ctx context.Context) (string, error) {
	dir := filepath.Join(b.dir, "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("small\n"), 0o644); err != nil {
		return "", err
	}
	return dir, b.commitAll(ctx, dir)
}

// codex is the native program inside the npm package: its node shim would add 60 ms to the peer.
func (b *bench) codex() (string, error) {
	bin, err := agenttest.Programs()
	if err != nil {
		return "", fmt.Errorf("the peer @openai/codex@%s: %w", agenttest.CodexVersion, err)
	}
	found, err := filepath.Glob(filepath.Join(bin, "..", "@openai", "codex-linux-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("the peer @openai/codex@%s: no native program for this machine in %s (%v)", agenttest.CodexVersion, bin, err)
	}
	return found[0], nil
}
