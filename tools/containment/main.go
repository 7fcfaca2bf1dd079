// Command containment makes the table of docs/CONTAINMENT.md again: what untrusted code can still do under bwrap, the Codex
// sandbox, srt, docker and `sallyport run`, each as root and as an ordinary user. `make containment` calls it.
//
// One program is both sides. Inside, as the probe, it tries each row of rows.go and says what the kernel answered; outside it
// keeps the lures, and a row counts as allowed where its effect was seen outside, whatever the probe says. All of it
// happens in namespaces of its own (namespace.go), so that the internet is an address that is ours and nothing is left.
//
// A peer that cannot be run here is not imitated: its column says why.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, "containment:", err)
		os.Exit(1)
	}
}

// role is what this process is: an argument without a dash names one.
func role() error {
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "probe":
			return inside(args)
		case "canary":
			return canary(args[0])
		case "wait":
			time.Sleep(20 * time.Second) // no longer than anybody looks for it
			return nil
		case "true":
			return nil
		case "abi":
			say(rowMark, "other-abi", otherABI())
			return nil
		case "status":
			fmt.Println(os.Geteuid(), status("self", "CapEff"))
			return nil
		}
	}
	programs := flag.String("programs", "bin", "folder of sallyport and its programs")
	only := flag.String("only", "", "comma-separated beginnings of columns; empty: all")
	page := flag.String("page", "", "the page whose table is made anew; empty: what was found is printed as JSON")
	within := flag.String("within", "", "for the program itself: what is missing and where the peers are")
	flag.Parse()
	if *within != "" {
		return outside(*programs, *only, *page, *within)
	}
	if os.Getuid() != 0 {
		return errors.New("it takes root: half of the columns are about it, and so are namespaces of its own")
	}
	p := prepared{Missing: map[string]string{}, Folders: map[string]string{}}
	for _, c := range chosen(*only) {
		if why := c.missing(); why != "" {
			p.Missing[c.id] = why
			continue
		}
		var err error
		switch {
		case strings.HasPrefix(c.id, "codex"):
			p.Folders["codex"], err = codexFolder()
		case strings.HasPrefix(c.id, "srt"):
			p.Folders["srt"], err = srtFolder()
		}
		if err != nil {
			return err
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return apart(append(os.Args[1:], "-within", string(b)))
}

// prepared is what was fetched and found out while there was a network.
type prepared struct {
	Missing map[string]string // by column
	Folders map[string]string // of peers
}

func chosen(only string) []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return only != "" && !slices.ContainsFunc(strings.Split(only, ","), func(b string) bool { return strings.HasPrefix(c.id, b) })
	})
}

// found is what came of it: for each column the cells by row and fact, or why there are none.
type found struct {
	Kernel   string                       `json:"kernel"`
	Versions []string                     `json:"versions"`
	Cells    map[string]map[string]string `json:"cells"`
	Missing  map[string]string            `json:"missing"`
}

func outside(programs, only, page, within string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var p prepared
	if err := json.Unmarshal([]byte(within), &p); err != nil {
		return err
	}
	if err := errors.Join(settle(), show(p.Folders)); err != nil {
		return err
	}
	h, err := newHost(programs)
	if err != nil {
		return err
	}
	// From here on /tmp is ours too: some peers leave folders there. What was needed of it has been read.
	if err := errors.Join(h.take(), unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")); err != nil {
		return errors.Join(err, h.close())
	}
	f := found{Kernel: release(), Cells: map[string]map[string]string{}, Missing: p.Missing}
	err = h.all(ctx, chosen(only), &f)
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	if page != "" {
		return write(page, f)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	return e.Encode(f)
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

// all fills in every column.
func (h *host) all(ctx context.Context, list []column, f *found) error {
	if slices.ContainsFunc(list, func(c column) bool { return strings.HasPrefix(c.id, "docker") && f.Missing[c.id] == "" }) {
		stop, err := h.engine(ctx)
		if err != nil {
			for _, c := range list {
				if strings.HasPrefix(c.id, "docker") {
					f.Missing[c.id] = err.Error()
				}
			}
		} else {
			defer stop()
		}
	}
	f.Versions = h.versions(ctx)
	for _, c := range list {
		if f.Missing[c.id] != "" {
			continue
		}
		cells, err := h.column(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.id, err)
		}
		f.Cells[c.id] = cells
	}
	return nil
}

// take puts what every column needs to where every user may read it.
func (h *host) take() error {
	list, err := filepath.Glob(filepath.Join(h.programs, "sallyport*"))
	if err != nil || len(list) == 0 {
		return fmt.Errorf("no sallyport in %s", h.programs)
	}
	err = errors.Join(os.Mkdir(h.path("programs"), 0o755), os.WriteFile(h.path("srt-settings.json"), []byte(srtSettings), 0o644))
	for _, from := range list {
		b, e := os.ReadFile(from)
		err = errors.Join(err, e, os.WriteFile(h.path("programs/"+filepath.Base(from)), b, 0o755))
	}
	for _, h.uid = range []int{0, ordinary} {
		for _, d := range []string{h.path(fmt.Sprintf("codex-%d", h.uid)), filepath.Dir(h.state())} {
			err = errors.Join(err, os.Mkdir(d, 0o755), h.give(d))
		}
	}
	return err
}

// column runs the probe once for all rows but those that have a run of their own, and once for each of these.
func (h *host) column(ctx context.Context, c column) (map[string]string, error) {
	cells := map[string]string{}
	said, err := h.run(ctx, c)
	if err != nil {
		return nil, err
	}
	if !said.ended {
		return nil, fmt.Errorf("the probe did not come to its end: …%s", said.printed[max(0, len(said.printed)-1500):])
	}
	for name, value := range said.facts {
		cells[name] = value
	}
	for _, g := range groups {
		for _, r := range g.rows {
			one, ok := said.rows[r.id]
			if ok {
				cells[r.id] = one.cell(r.seen != nil, said.effects[r.id])
			}
		}
	}
	for _, id := range alone {
		said, err := h.run(ctx, c, id)
		if err != nil {
			return nil, err
		}
		cells[id] = "ended"
		if one, ok := said.rows[id]; ok {
			cells[id] = one.cell(false, false)
		}
	}
	return cells, nil
}

// allowed is the word of the table. All else says what stood against it.
const allowed = "ALLOWED"

// cell is the verdict: what was seen outside counts more than what the probe says.
func (r result) cell(sees, seen bool) string {
	switch {
	case seen, r.allowed && !sees:
		return strings.TrimSpace(allowed + " " + r.detail)
	case r.allowed:
		return "its own" // it worked, on something that is not the host's
	case r.detail == "":
		return "refused"
	}
	return r.detail
}

// sayings are what the probe printed in one run, and what was seen outside at its end.
type sayings struct {
	facts   map[string]string
	rows    map[string]result
	effects map[string]bool
	ended   bool
	printed string
}

// maxRun is for one run of one sandbox.
const maxRun = 2 * time.Minute

func (h *host) run(ctx context.Context, c column, rows ...string) (s sayings, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	if err := h.turn(c.uid); err != nil {
		return s, err
	}
	if h.tty, err = newTerminal(); err != nil {
		return s, err
	}
	defer h.tty.close()
	_ = h.tty.slave.Chown(h.uid, h.uid)
	config := h.config()
	cmd, err := c.command(ctx, h, append([]string{h.work() + "/x", "probe", config}, rows...))
	if err != nil {
		return s, err
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = h.tty.slave, &out, &errs
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	watching, enough := context.WithCancel(ctx)
	go h.watch(watching, config)
	failed := cmd.Run() // whatever its exit code says: the lines are the answer
	enough()
	printed := out.Bytes()
	if c.output != nil {
		if printed, err = c.output(h, printed); err != nil {
			return s, fmt.Errorf("%w: %.600s", err, errs.String())
		}
	}
	s = parse(string(printed))
	s.printed = fmt.Sprintf("%v\n%s\n%s", failed, printed, errs.String())
	s.effects = map[string]bool{}
	time.Sleep(200 * time.Millisecond) // what is on its way arrives
	for _, g := range groups {
		for _, r := range g.rows {
			if r.seen != nil {
				s.effects[r.id] = r.seen(h)
			}
		}
	}
	if len(rows) == 0 {
		h.mu.Lock()
		var as []string
		for uid := range h.uids {
			as = append(as, uid)
		}
		h.mu.Unlock()
		slices.Sort(as)
		s.facts["uid"] += ", " + identity(as)
	}
	for _, p := range []string{"/tmp/", "/dev/shm/"} {
		_ = os.Remove(p + "sallyport-containment-" + h.token)
	}
	return s, nil
}

// identity is the identity on the host. An id of a sandbox's own differs from run to run.
func identity(uids []string) string {
	if len(uids) != 1 {
		return fmt.Sprint("not told: ", uids)
	}
	if uids[0] != "0" && uids[0] != fmt.Sprint(ordinary) {
		return "an id of its own"
	}
	return uids[0]
}

// parse reads the marked lines.
func parse(text string) sayings {
	s := sayings{facts: map[string]string{}, rows: map[string]result{}}
	for l := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(l, "\r\n"), "\t")
		switch {
		case f[0] == endMark:
			s.ended = true
		case f[0] == factMark && len(f) == 3:
			s.facts[f[1]] = f[2]
		case f[0] == rowMark && len(f) == 4:
			s.rows[f[1]] = result{f[2] == "true", f[3]}
		}
	}
	return s
}
