// Command bench measures Sallyport against peers and baselines in one run: ratios of medians, with the
// compared commands taking turns, so that what else the machine does falls on both. `make bench` calls it.
//
// It asserts nothing and changes no product code path: what it prints is for docs/BENCHMARKS.md. Whether
// the code is right is the tests' question.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == clientRole {
		if err := client(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 5 && os.Args[1] == proxyRole {
		if err := proxyOnly(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	programs := flag.String("programs", "bin", "folder of sallyport, sallyport-keeper and sallyport-runner")
	only := flag.String("only", "", "comma-separated benches to run; empty: all of start,worktree,tools,attempt,first,secrets,egress,requests")
	rounds := flag.Int("rounds", 15, "rounds of what is cheap; dear things take fewer")
	limit := flag.Duration("limit", 330*time.Second, "stop after this long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, *programs, *only, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	programs string // absolute
	cache    string // of generated repositories and installed peers; kept
	dir      string // of this run; removed
	home     string // a home folder without configuration, for programs that write there
	rounds   int
}

// benches in the order in which they run.
var benches = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"start", (*bench).start}, {"worktree", (*bench).worktree}, {"tools", (*bench).tools}, {"attempt", (*bench).attempt}, {"first", (*bench).first}, {"secrets", (*bench).secrets}, {"egress", (*bench).egress}, {"requests", (*bench).requests},
}

func run(ctx context.Context, programs, only string, rounds int) error {
	b, err := newBench(programs, rounds)
	if err != nil {
		return err
	}
	defer b.close()
	describe()
	chosen := map[string]bool{}
	for _, n := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' }) {
		chosen[n] = true
	}
	for _, m := range benches {
		if len(chosen) > 0 && !chosen[m.name] {
			continue
		}
		if err := m.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func newBench(programs string, rounds int) (*bench, error) {
	abs, err := filepath.Abs(programs)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("no cache folder (set HOME): %w", err)
	}
	cache = filepath.Join(cache, "sallyport-test")
	if err := os.MkdirAll(filepath.Join(cache, "repos"), 0o755); err != nil {
		return nil, err
	}
	// Beside the cache and not in /tmp, which may be in memory: a state folder lies on a disk.
	dir, err := os.MkdirTemp(cache, "bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{programs: abs, cache: cache, dir: dir, home: filepath.Join(dir, "home"), rounds: max(rounds, 3)}
	return b, os.Mkdir(b.home, 0o755)
}

func (b *bench) close() {
	if err := os.RemoveAll(b.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "bench: left behind:", err)
	}
}

// describe says what the figures are of.
func describe() {
	kernel := "unknown"
	if data, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(data))
	}
	load := ""
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	fmt.Printf("%s · %d CPUs · Linux %s · uid %d · load before: %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), kernel, os.Geteuid(), load)
	fmt.Println("Compared commands take turns. Ratios are of medians; a loaded machine slows both sides.")
}
