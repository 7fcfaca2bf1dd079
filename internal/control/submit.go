package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/toolchain"
)

// Request is one WorkOrder as a person asks for it.
type Request struct {
	Dir      string               // where the person stands
	File     *sallyport.WorkOrder // workorder.yaml; nil: none
	Places   manifest.Places      // of File, for messages
	Flags    sallyport.WorkOrder  // from the command line
	Announce func(line string)    // one-line facts for the person
	Environ  []string             // the person's environment, for finding programs
	// Grant shows what the repository asks of the host and returns the person's word; nil: nobody can be asked.
	Grant func(asks []manifest.Ask) bool
}

// PolicyFile is the repository's policy, at its root.
const PolicyFile = "sallyport.yaml"

// operatorPolicy is the host's ceiling.
const operatorPolicy = "/etc/sallyport/policy.yaml"

// Submit freezes the request and journals its Attempt (queued). Nothing runs yet. CodeDenied and
// CodeUnsupported are refusals; CodeInvalid names field and place; CodeConflict: an Attempt of the same
// WorkOrder is live.
func (c *Control) Submit(ctx context.Context, r Request) (sallyport.AttemptID, error) {
	m, err := c.compile(ctx, r)
	if err != nil {
		return "", err
	}
	unlock, err := c.lockWorkOrder(m.WorkOrder)
	if err != nil {
		return "", err
	}
	defer unlock()
	earlier, err := c.journal.OfWorkOrder(ctx, m.WorkOrder)
	if err != nil {
		return "", err
	}
	for _, a := range earlier {
		if !a.Report.State.Ended() {
			return "", &sallyport.Error{Op: "run", Code: sallyport.CodeConflict, Subject: m.Name,
				Message: fmt.Sprintf("Attempt %s of this WorkOrder is live (%s)", a.Report.Attempt, a.Report.State),
				Hint:    fmt.Sprintf("follow it with `sallyport attach %s`, end it with `sallyport cancel %s`, or give another --name", screen.Short(a.Report.Attempt), screen.Short(a.Report.Attempt))}
		}
	}
	return c.create(ctx, m, attemptOf{number: 1})
}

// attemptOf is what distinguishes an Attempt from others of its Manifest.
type attemptOf struct {
	number   int
	previous sallyport.AttemptID
	start    sallyport.ObjectID // empty: the Manifest's
	feedback string
}

// create makes the Manifest durable, then the Attempt.
func (c *Control) create(ctx context.Context, m sallyport.Manifest, of attemptOf) (sallyport.AttemptID, error) {
	b, digest, err := manifest.Freeze(m)
	if err != nil {
		return "", err
	}
	if err := writeDurable(c.manifestPath(digest), b); err != nil {
		return "", err
	}
	raw, err := id.New(sallyport.AttemptPrefix)
	if err != nil {
		return "", err
	}
	a := sallyport.AttemptID(raw)
	if err := os.MkdirAll(c.attemptFolder(a), 0o700); err != nil {
		return "", stateError(c.attemptFolder(a), err)
	}
	start := of.start
	if start == "" {
		start = m.StartTree
	}
	// As it is: a path must not be altered, and what a person wrote was refused where it held a secret.
	_, err = c.journal.Append(ctx, nil, journal.Record{Type: lifecycle.AttemptCreated, Attempt: a, Data: lifecycle.Created{
		WorkOrder: m.WorkOrder, Name: m.Name, Number: of.number, Previous: of.previous, Manifest: digest, Base: m.Base, Repository: m.Repository,
		Submitter: submitter(), StartTree: start, Feedback: of.feedback, Notices: m.Notices, Separation: "none"}})
	return a, err
}

func submitter() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// lockWorkOrder serialises submissions of one WorkOrder on this machine.
func (c *Control) lockWorkOrder(w sallyport.WorkOrderID) (func(), error) {
	path := filepath.Join(c.cfg.State, "repos", string(w)+".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, stateError(path, err)
	}
	f.Close()
	return lockFile(path)
}

// lockFile locks a file or folder that is there and stays, among all processes that ask for it in this way.
func lockFile(path string) (func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, stateError(path, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, stateError(path, err)
	}
	return func() { f.Close() }, nil
}

// compile resolves everything a Manifest holds.
func (c *Control) compile(ctx context.Context, r Request) (sallyport.Manifest, error) {
	fail := func(err error) (sallyport.Manifest, error) { return sallyport.Manifest{}, err }
	repo, err := change.Open(ctx, r.Dir)
	if err != nil {
		return fail(err)
	}
	file := sallyport.WorkOrder{}
	if r.File != nil {
		file = *r.File
	}
	in := manifest.Input{WorkOrder: manifest.Merge(file, r.Flags), Places: manifest.MergePlaces(r.Places, r.Flags),
		Path: repo.Top, Subfolder: repo.Subfolder, Provider: "local", Rules: findingRules()}
	// Before git is asked for it. A value that only a file to be copied in holds is not known yet.
	if err := withoutSecrets("run", sallyport.Manifest{}, spoken{"base", in.WorkOrder.Base}); err != nil {
		return fail(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // a refusal need not wait for what is still being looked at
	var look <-chan dirt
	if !in.WorkOrder.IncludeDirty {
		look = lookForDirt(ctx, repo)
	}
	if in.Ceiling, in.User, err = operators(); err != nil {
		return fail(err)
	}
	var protected change.Rev
	if in.Prices, err = prices(in.Ceiling); err != nil {
		return fail(err)
	}
	if in.Base, protected, err = resolveBase(ctx, repo, in.WorkOrder.Base, manifest.ProtectedRef(in.User, in.Ceiling)); err != nil {
		return fail(err)
	}
	if err := missesNothing(ctx, repo, in.Base); err != nil {
		return fail(err)
	}
	if in.Repository, in.Source, err = c.policy(ctx, repo, protected, r.Announce); err != nil {
		return fail(err)
	}
	if in.Granted, err = c.granted(repo, in, r.Grant); err != nil {
		return fail(err)
	}
	if err := c.dirty(ctx, repo, &in, look, r.Announce); err != nil {
		return fail(err)
	}
	if err := c.standsInside(ctx, repo, in); err != nil {
		return fail(err)
	}
	name, err := manifest.AgentName(in.WorkOrder, in.User, in.Ceiling)
	if err != nil {
		return fail(err)
	}
	if name != "" {
		preset := agent.Preset
		if in.WorkOrder.Terminal {
			preset = agent.Interactive
		}
		if in.Agent, err = preset(name); err != nil {
			return fail(err)
		}
		if in.Agent, err = agent.Override(in.Agent, os.Getenv); err != nil {
			return fail(err)
		}
		if e := in.Agent.Endpoint; e != nil {
			if err := gateway.Check(*e); err != nil {
				return fail(err)
			}
		}
	}
	in.Host = hostFacts()
	tools, err := c.tools(repo, in, r.Environ)
	if err != nil {
		return fail(err)
	}
	in.Host.Home = tools.Home
	in.Toolchain = manifest.Toolchain{Mounts: tools.Mounts, Path: tools.Path, Env: tools.Env}
	m, err := manifest.Compile(in)
	if err != nil {
		return fail(err)
	}
	if err := pullTarget(ctx, repo, &m); err != nil {
		return fail(err)
	}
	if reaches(m) {
		if m.Forges, err = forgesOf(ctx, repo); err != nil {
			return fail(err)
		}
	}
	words := []spoken{{"task", in.WorkOrder.Task}, {"name", m.Name}}
	for _, arg := range in.WorkOrder.Command {
		words = append(words, spoken{"command", arg})
	}
	if err := withoutSecrets("run", m, words...); err != nil {
		return fail(err)
	}
	if err := credentialThere(m.Agent, os.Getenv); err != nil {
		return fail(err)
	}
	if err := credentialsThere(m); err != nil {
		return fail(err)
	}
	m.Notices = append(m.Notices, tools.Notices...)
	return m, nil
}

// credentialThere refuses an agent whose model credential nobody has set, or that the gateway would not send:
// it would try for minutes and then fail with an error of the model's. The value is looked at again when it is
// needed.
func credentialThere(a sallyport.Agent, getenv func(string) string) error {
	if a.Endpoint == nil {
		return nil
	}
	name := a.Endpoint.CredentialEnv
	refuse := func(message string) error {
		return &sallyport.Error{Op: "choose the agent", Code: sallyport.CodeUnsupported, Subject: a.Name, Message: message,
			Hint: "set " + name + " where you call sallyport, the sandbox only ever holds a placeholder; or lend it a subscription: docs/guide-credentials.md"}
	}
	value := getenv(name)
	if value == "" {
		return refuse("the environment variable " + name + " is not set; without it the agent cannot reach its model")
	}
	var unusable *sallyport.Error
	if errors.As(gateway.Usable(value), &unusable) {
		return refuse("the value of the environment variable " + name + " is no credential: " + unusable.Message)
	}
	return nil
}

func resolveBase(ctx context.Context, repo *change.Repo, rev, configured string) (manifest.Base, change.Rev, error) {
	base, err := repo.Resolve(ctx, rev)
	if err != nil {
		return manifest.Base{}, change.Rev{}, err
	}
	protected, err := repo.Protected(ctx, configured)
	if err != nil {
		return manifest.Base{}, change.Rev{}, err
	}
	ok := base.Commit == protected.Commit
	if !ok {
		if ok, err = repo.IsAncestor(ctx, base.Commit, protected.Commit); err != nil {
			return manifest.Base{}, change.Rev{}, err
		}
	}
	return manifest.Base{Ref: base.Ref, Commit: base.Commit, Tree: base.Tree, StartTree: base.Tree, Protected: ok}, protected, nil
}

// standsInside refuses a folder that the sandbox would not have: the agent starts where the person stands.
func (c *Control) standsInside(ctx context.Context, repo *change.Repo, in manifest.Input) error {
	if repo.Subfolder == "" {
		return nil
	}
	s, err := c.store(ctx, repo)
	if err != nil {
		return err
	}
	ok, err := s.HasFolder(ctx, in.Base.StartTree, repo.Subfolder)
	if err != nil || ok {
		return err
	}
	e := &sallyport.Error{Op: "run", Code: sallyport.CodeInvalid, Subject: repo.Subfolder, Message: "the folder you stand in is not in the base " + in.Base.Commit.Short() + ", so no agent can start there",
		Hint: "go to a folder that is committed, or add --include-dirty"}
	if in.WorkOrder.IncludeDirty {
		e.Message = "the folder you stand in is empty or ignored, and git takes no such folder, so no agent can start there"
		e.Hint = "go to a folder with files that git does not ignore"
	}
	return e
}

// maxPolicy bounds a policy file.
const maxPolicy = 1 << 20

// policy is the repository's file at its protected ref, or the person's own uncommitted one in its place,
// which no sandbox can write.
func (c *Control) policy(ctx context.Context, repo *change.Repo, protected change.Rev, announce func(string)) (*manifest.Repository, sallyport.Source, error) {
	committed, err := repo.ReadFile(ctx, protected.Commit, PolicyFile, maxPolicy)
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return nil, sallyport.Source{}, err
	}
	source := sallyport.Source{Kind: "protected-ref", Ref: protected.Ref, Commit: protected.Commit}
	data := committed
	if own, err := readOwn(filepath.Join(repo.Top, PolicyFile)); err != nil {
		return nil, sallyport.Source{}, err
	} else if own != nil && string(own) != string(committed) {
		data, source = own, sallyport.Source{Kind: "worktree"}
		announce("policy: your working tree's " + PolicyFile + " (uncommitted) takes the place of the protected ref's")
	}
	if data == nil {
		return nil, sallyport.Source{Kind: "none"}, nil
	}
	source.Digest = sallyport.Sum(data)
	parsed, err := manifest.ParseRepository(PolicyFile, data)
	if err != nil {
		return nil, source, err
	}
	return &parsed, source, nil
}

// readOwn reads a regular file; nil for none.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &sallyport.Error{Op: "read policy", Code: sallyport.CodeInvalid, Subject: path, Message: "expected a regular file", Err: err}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxPolicy {
		return nil, &sallyport.Error{Op: "read policy", Code: sallyport.CodeInvalid, Subject: path, Message: "expected a regular file of at most 1 MiB", Err: err}
	}
	b := make([]byte, fi.Size())
	n, err := f.ReadAt(b, 0)
	if int64(n) != fi.Size() {
		return nil, &sallyport.Error{Op: "read policy", Code: sallyport.CodeInvalid, Subject: path, Message: "changed while it was read", Err: err}
	}
	return b, nil
}

// operators reads the host's ceiling and the person's own configuration. A ceiling that others than root can
// write is no ceiling, and stops the run.
func operators() (ceiling, own *manifest.Operator, err error) {
	var st unix.Stat_t
	switch serr := unix.Lstat(operatorPolicy, &st); {
	case serr == unix.ENOENT:
	case serr != nil:
		return nil, nil, &sallyport.Error{Op: "read policy", Code: sallyport.CodeDenied, Subject: operatorPolicy, Message: "cannot be looked at", Err: serr}
	case st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, nil, &sallyport.Error{Op: "read policy", Code: sallyport.CodeDenied, Subject: operatorPolicy, Message: "expected a regular file that only root can write", Hint: "chown root:root and chmod 644 it"}
	default:
		if ceiling, err = readOperator(operatorPolicy); err != nil {
			return nil, nil, err
		}
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ceiling, nil, nil
	}
	own, err = readOperator(filepath.Join(dir, "sallyport", "config.yaml"))
	return ceiling, own, err
}

func readOperator(path string) (*manifest.Operator, error) {
	b, err := readOwn(path)
	if err != nil || b == nil {
		return nil, err
	}
	o, err := manifest.ParseOperator(path, b)
	return &o, err
}

func grants() (*manifest.Grants, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, &sallyport.Error{Op: "grants", Code: sallyport.CodeInvalid, Message: "no configuration folder", Hint: "set HOME", Err: err}
	}
	return manifest.OpenGrants(manifest.GrantsPath(dir)), nil
}

// granted asks the person once for what the repository wants of the host.
func (c *Control) granted(repo *change.Repo, in manifest.Input, ask func([]manifest.Ask) bool) (sallyport.Digest, error) {
	if in.Repository == nil {
		return "", nil
	}
	asks := manifest.Asks(*in.Repository)
	if len(asks) == 0 {
		return "", nil
	}
	digest := manifest.AsksDigest(*in.Repository)
	g, err := grants()
	if err != nil {
		return "", err
	}
	ok, err := g.Granted(repo.Top, digest)
	if err != nil {
		return "", err
	}
	forbidden := in.Ceiling != nil && in.Ceiling.ForbidGrants
	if ok || forbidden {
		if forbidden {
			return "", nil
		}
		return digest, nil
	}
	if ask != nil && ask(asks) {
		return digest, g.Grant(repo.Top, *in.Repository, time.Now())
	}
	return "", nil // Compile refuses and names the command
}

// dirt is what a look at the person's working tree found.
type dirt struct {
	changed, untracked int
	err                error
}

// lookForDirt looks while other things are found out: with many files it takes longer than all of them.
func lookForDirt(ctx context.Context, repo *change.Repo) <-chan dirt {
	found := make(chan dirt, 1)
	go func() {
		var d dirt
		d.changed, d.untracked, d.err = repo.Dirty(ctx)
		found <- d
	}()
	return found
}

// dirty says what is not in the base, or takes it in where that was asked for.
func (c *Control) dirty(ctx context.Context, repo *change.Repo, in *manifest.Input, look <-chan dirt, announce func(string)) error {
	if in.WorkOrder.IncludeDirty {
		if home, err := os.UserHomeDir(); err == nil && holdsHome(repo, home) {
			return &sallyport.Error{Op: "run", Code: sallyport.CodeInvalid, Subject: "--include-dirty", Message: "the repository holds your home folder, and with it all that lies there and that no rule ignores would be taken in",
				Hint: "commit what the agent should have, or list it under copy:"}
		}
		s, err := c.store(ctx, repo)
		if err != nil {
			return err
		}
		tree, changed, untracked, err := s.Snapshot(ctx)
		if err != nil {
			return err
		}
		in.Base.StartTree = tree
		announce(fmt.Sprintf("%d changed, %d untracked files of your working tree are included", changed, untracked))
		return nil
	}
	found := <-look
	if found.err == nil && found.changed+found.untracked > 0 {
		announce(fmt.Sprintf("%d changed, %d untracked files are not in the base; --include-dirty takes them in", found.changed, found.untracked))
	}
	return found.err
}

// store is our own bare repository for repo.
func (c *Control) store(ctx context.Context, repo *change.Repo) (*change.Store, error) {
	name := strings.TrimPrefix(string(sallyport.Sum([]byte(repo.CommonDir))), "sha256:")[:32]
	return change.OpenStore(ctx, filepath.Join(c.cfg.State, "repos", name), repo)
}

// tools resolves what of the host a sandbox sees.
func (c *Control) tools(repo *change.Repo, in manifest.Input, environ []string) (toolchain.Result, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return toolchain.Result{}, &sallyport.Error{Op: "tools", Code: sallyport.CodeInvalid, Message: "no home folder", Hint: "set HOME", Err: err}
	}
	req := toolchain.Request{Home: home, Repo: repo.Top, Env: map[string]string{}, Never: []string{c.cfg.State},
		Tools: toolChoice(manifest.EffectiveTools(in.Repository, in.User)), Caches: toolChoice(manifest.EffectiveCaches(in.Repository, in.User))}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			req.Env[k] = v
		}
	}
	req.PathEnv = req.Env["PATH"]
	req.Commands = []string{"sh", "git"}
	switch {
	case len(in.WorkOrder.Command) > 0:
		req.Commands = append(req.Commands, in.WorkOrder.Command[0])
	case len(in.Agent.Command) > 0:
		req.Commands = append(req.Commands, in.Agent.Command[0])
	}
	if in.Repository != nil {
		req.Deps = in.Repository.Deps
		for _, k := range in.Repository.Checks {
			req.Checks = append(req.Checks, firstWord(k.Run))
		}
	}
	res, err := toolchain.Resolve(req)
	if err != nil {
		return res, err
	}
	have := map[string]bool{}
	for _, m := range res.Mounts {
		have[m.Path] = true
	}
	for _, l := range res.Links {
		if !have[l.Path] {
			res.Mounts = append(res.Mounts, sallyport.Mount{Path: l.Path, Mode: "ro", Reason: "link", Hide: []string{}})
		}
	}
	return res, nil
}

func toolChoice(c manifest.Choice) toolchain.Choice {
	return toolchain.Choice{Auto: c.Auto, List: c.List}
}

// firstWord is the program of a shell command, past assignments.
func firstWord(run string) string {
	for _, w := range strings.Fields(run) {
		if !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

func hostFacts() manifest.Host {
	h := manifest.Host{CPUs: runtime.NumCPU()}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		h.Memory = int64(si.Totalram) * int64(si.Unit)
	}
	return h
}

// findingRules are the rules that a policy's findings: may name.
func findingRules() map[string]manifest.Rule {
	rules := map[string]manifest.Rule{}
	for _, r := range inspect.Rules() {
		rules[r.ID] = manifest.Rule{Severity: r.Severity, Floor: r.Floor}
	}
	return rules
}
