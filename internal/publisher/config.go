package publisher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/forge"
)

// Config is publisher.yaml. It is the Publisher's own: Mission Control needs not be able to read it.
type Config struct {
	Version int `yaml:"version"`
	// State is the folder with ledger, keys and mirrors; default beside the configuration.
	State string `yaml:"state"`
	// Listen is the Unix socket of `serve`; default STATE/publisher.sock.
	Listen string `yaml:"listen"`
	// Peers are the user ids that may ask, beside the Publisher's own.
	Peers []int `yaml:"peers"`
	// MissionControl are files of public keys, as `sallyport keys` prints them: an acceptance by any of them counts.
	MissionControl []string `yaml:"mission-control"`
	Targets        []Target `yaml:"targets"`
}

// Target is one repository that may be published to, with all that may be done there.
type Target struct {
	Repository string   `yaml:"repository"` // https://forge.example/owner/name; for plain git any address that git takes
	Kind       string   `yaml:"kind"`       // github | gitlab | gitea | git
	API        string   `yaml:"api"`        // where the forge's API is not at its usual place
	Push       string   `yaml:"push"`       // where git pushes, if not to Repository
	CAFile     string   `yaml:"ca-file"`
	Compare    string   `yaml:"compare"` // plain git: where a person opens a pull request by hand, with {head} and {base} in it
	Bases      []string `yaml:"bases"`   // branches that a pull request may ask to change
	Credential Source   `yaml:"credential"`
	// Protected are globs of paths that are never published; AllowProtected takes some out. Default: DefaultProtected.
	Protected      []string `yaml:"protected"`
	AllowProtected []string `yaml:"allow-protected"`
	Draft          *bool    `yaml:"draft"`  // default true
	Attach         *bool    `yaml:"attach"` // evidence beside the change, for whoever can read the repository; default true
	Labels         []string `yaml:"labels"`
	Issue          string   `yaml:"issue"`      // linked in every pull request: "#12" or an address
	BaseMoved      string   `yaml:"base-moved"` // publish (and say so) | refuse; default publish
	Allow          []string `yaml:"allow"`      // codes of findings of `check` that the operator accepts
	Approvers      Approval `yaml:"approvers"`
	// Attestations: the evidence is stored as an attestation too (GitHub). The credential may do more then.
	Attestations bool `yaml:"attestations"`
}

// Source says where the credential for one target comes from. Exactly one way is given.
type Source struct {
	TokenFile string `yaml:"token-file"`
	User      string `yaml:"user"` // with token-file: for git over HTTPS; with password-file: who mints
	Password  string `yaml:"password-file"`
	SSHKey    string `yaml:"ssh-key"`
	KnownHost string `yaml:"known-hosts"`
	App       *App   `yaml:"app"`
	// Owner is the file of a maintainer's token, which makes a project access token for each publication (GitLab), for the
	// project of this number, if it is given.
	Owner     string `yaml:"owner-token-file"`
	ProjectID int64  `yaml:"project-id"`
	SSHCA     *SSHCA `yaml:"ssh-ca"`
}

// SSHCA makes a key and an OpenSSH certificate for each publication, for plain git.
type SSHCA struct {
	Key       string        `yaml:"key"`       // file of the private key that signs; nobody else can read it
	Principal string        `yaml:"principal"` // whom the server takes us for
	Valid     time.Duration `yaml:"valid"`     // from now; default 5m
	Command   string        `yaml:"command"`   // git-receive-pack 'PATH': all that a certificate is good for, beside reading the same
	Folder    string        `yaml:"folder"`    // where key and certificate lie meanwhile; default STATE/certificates
}

// App is a GitHub App.
type App struct {
	ID           string `yaml:"id"`
	KeyFile      string `yaml:"key-file"`
	Installation int64  `yaml:"installation"`  // 0: looked up
	RepositoryID int64  `yaml:"repository-id"` // a rename keeps it
}

// Approval is who must have approved.
type Approval struct {
	Count  int      `yaml:"count"`
	People []Person `yaml:"people"`
}

// Person is one approver, with the keys that are theirs.
type Person struct {
	Name string   `yaml:"name"`
	Keys []string `yaml:"keys"` // lines as in authorized_keys, without options
}

// DefaultProtected are the paths that can change what runs with the repository's own rights.
var DefaultProtected = []string{".github/workflows/**", ".github/actions/**", ".github/chainguard/**", ".github/dependabot.y*ml", ".gitlab-ci.yml", ".gitlab/**/*.y*ml",
	".gitea/workflows/**", ".forgejo/workflows/**", ".woodpecker/**", ".woodpecker.y*ml", ".circleci/**", ".buildkite/**", ".drone.yml", ".travis.yml", "appveyor.yml", ".cirrus.yml",
	"azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", "**/CODEOWNERS", "**/.gitattributes", ".gitmodules"}

// ReadConfig reads publisher.yaml. CodeInvalid names the line; an unknown key, a key twice and a missing value are errors.
func ReadConfig(path string) (Config, error) {
	b, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, &sallyport.Error{Op: "read configuration", Code: sallyport.CodeNotFound, Subject: path, Err: err,
			Hint: "docs/guide-publishing.md has one for each forge"}
	}
	if err != nil {
		return Config{}, err
	}
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict())
	if err := d.Decode(&c); err != nil {
		return Config{}, &sallyport.Error{Op: "read configuration", Code: sallyport.CodeInvalid, Subject: path, Message: strings.TrimSpace(yaml.FormatError(err, false, false))}
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return Config{}, wrong(path, "expected one document: what follows the first would not count")
	}
	if err := c.check(filepath.Dir(path)); err != nil {
		err.Subject = path + ": " + err.Subject
		return Config{}, err
	}
	return c, nil
}

// readOwn reads what decides who may publish what, from a file that nobody else can write.
func readOwn(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return nil, &sallyport.Error{Op: "read configuration", Code: sallyport.CodeDenied, Subject: path, Message: "others can write it", Hint: "chmod go-w " + path}
	}
	return io.ReadAll(f)
}

func wrong(subject, format string, args ...any) *sallyport.Error {
	return &sallyport.Error{Op: "read configuration", Code: sallyport.CodeInvalid, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

func (c *Config) check(dir string) *sallyport.Error {
	if c.Version != 1 {
		return wrong("version", "expected 1, found %d", c.Version)
	}
	if c.State == "" {
		c.State = filepath.Join(dir, "publisher")
	}
	if c.State = under(dir, c.State); c.Listen == "" {
		c.Listen = filepath.Join(c.State, "publisher.sock")
	}
	c.Listen = under(dir, c.Listen)
	if len(c.MissionControl) == 0 {
		return wrong("mission-control", "expected at least one file of public keys: `sallyport keys > FILE`")
	}
	for i := range c.MissionControl {
		c.MissionControl[i] = under(dir, c.MissionControl[i])
	}
	if len(c.Targets) == 0 {
		return wrong("targets", "expected at least one; an empty list means that nothing is published")
	}
	seen := map[string]bool{}
	for i := range c.Targets {
		t := &c.Targets[i]
		if err := t.check(dir); err != nil {
			err.Subject = fmt.Sprintf("targets[%d].%s", i, err.Subject)
			return err
		}
		if seen[t.Repository] {
			return wrong(fmt.Sprintf("targets[%d].repository", i), "%s comes twice", t.Repository)
		}
		seen[t.Repository] = true
		if ca := t.Credential.SSHCA; ca != nil && ca.Folder == "" {
			ca.Folder = filepath.Join(c.State, "certificates")
		}
	}
	return nil
}

// credentialsDirectory is where systemd puts what a unit has with LoadCredential=.
const credentialsDirectory = "CREDENTIALS_DIRECTORY"

// under resolves a path of the configuration against its folder, or where it begins with $CREDENTIALS_DIRECTORY/ against
// that. Outside of the unit there is none: such a path then leads nowhere, and what needs no credential works.
func under(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "$"+credentialsDirectory+"/"); ok && filepath.IsAbs(os.Getenv(credentialsDirectory)) {
		return filepath.Join(os.Getenv(credentialsDirectory), filepath.Join("/", rest))
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func (t *Target) check(dir string) *sallyport.Error {
	u, err := url.Parse(t.Repository)
	if err != nil || t.Repository == "" || u.User != nil && u.Scheme != "ssh" || u.RawQuery+u.Fragment != "" {
		return wrong("repository", "expected the address of a repository without user and password, found %q", t.Repository)
	}
	kinds := []string{"github", "gitlab", "gitea", "git"}
	if !slices.Contains(kinds, t.Kind) {
		return wrong("kind", "expected one of %s, found %q", strings.Join(kinds, ", "), t.Kind)
	}
	if t.Attestations && t.Kind != "github" {
		return wrong("attestations", "only kind github keeps attestations, found kind %s", t.Kind)
	}
	if len(t.Bases) == 0 {
		return wrong("bases", "expected at least one branch; an empty list means that none is")
	}
	for _, b := range t.Bases {
		if b == "" || strings.HasPrefix(b, "refs/") || strings.ContainsAny(b, "*?[ ") {
			return wrong("bases", "expected short names of branches, found %q", b)
		}
	}
	if t.Protected == nil {
		t.Protected = DefaultProtected
	}
	for _, g := range slices.Concat(t.Protected, t.AllowProtected) {
		if !doublestar.ValidatePattern(g) || strings.HasPrefix(g, "/") {
			return wrong("protected", "expected globs relative to the repository, found %q", g)
		}
	}
	if t.BaseMoved == "" {
		t.BaseMoved = "publish"
	}
	if !slices.Contains([]string{"publish", "refuse"}, t.BaseMoved) {
		return wrong("base-moved", "expected publish or refuse, found %q", t.BaseMoved)
	}
	for _, b := range []**bool{&t.Draft, &t.Attach} {
		if *b == nil {
			yes := true
			*b = &yes
		}
	}
	if a := t.Approvers; a.Count < 0 || a.Count > len(a.People) || a.Count == 0 && len(a.People) > 0 {
		return wrong("approvers", "expected a count from 1 to the number of people, found %d of %d", a.Count, len(a.People))
	}
	for i, person := range t.Approvers.People {
		for _, line := range person.Keys {
			if _, err := approval.ParseKey(person.Name, line); err != nil {
				return wrong(fmt.Sprintf("approvers.people[%d].keys", i), "%v", err)
			}
		}
	}
	t.CAFile = under(dir, t.CAFile)
	if t.Credential.SSHCA != nil && (t.Kind != "git" || !strings.HasPrefix(cmp.Or(t.Push, t.Repository), "ssh://")) {
		return wrong("credential.ssh-ca", "a certificate is for kind git with an address ssh://…, in push or repository")
	}
	return t.Credential.check(dir, u.Scheme == "file")
}

// check: none says that the target takes no credential, a folder of this machine.
func (s *Source) check(dir string, none bool) *sallyport.Error {
	ways := 0
	for _, given := range []bool{s.TokenFile != "", s.Password != "", s.App != nil, s.SSHCA != nil, s.Owner != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 || ways == 0 && s.SSHKey == "" && !none {
		return wrong("credential", "expected one of token-file, password-file (with user), owner-token-file, app, ssh-ca, or ssh-key")
	}
	if s.Password != "" && s.User == "" {
		return wrong("credential.user", "expected whose password it is")
	}
	if s.SSHKey != "" && s.SSHCA != nil {
		return wrong("credential", "expected ssh-key or ssh-ca, found both")
	}
	if (s.SSHKey != "" || s.SSHCA != nil) && s.KnownHost == "" {
		return wrong("credential.known-hosts", "expected the file with the server's key: it is never asked for")
	}
	if s.App != nil && (s.App.ID == "" || s.App.KeyFile == "") {
		return wrong("credential.app", "expected id and key-file")
	}
	for _, p := range []*string{&s.TokenFile, &s.Password, &s.Owner, &s.SSHKey, &s.KnownHost} {
		*p = under(dir, *p)
	}
	if s.App != nil {
		s.App.KeyFile = under(dir, s.App.KeyFile)
	}
	if s.SSHCA != nil {
		return s.SSHCA.check(dir)
	}
	return nil
}

func (s *SSHCA) check(dir string) *sallyport.Error {
	if s.Key == "" {
		return wrong("credential.ssh-ca.key", "expected the file of the private key that signs certificates")
	}
	if s.Valid == 0 {
		s.Valid = forge.DefaultCertificate
	}
	if part, expected := s.Certificate().Check(); part != "" {
		return wrong("credential.ssh-ca."+part, "%s", expected)
	}
	s.Key, s.Folder = under(dir, s.Key), under(dir, s.Folder)
	return nil
}

// Certificate is what is asked for.
func (s *SSHCA) Certificate() forge.Certificate {
	return forge.Certificate{Principal: s.Principal, Valid: s.Valid, Push: s.Command}
}

// guards is the glob that keeps path from being published, "" if none does.
//
// A link or a submodule in the place of a folder brings what lies below it: so a path is kept too that is a beginning of
// what a glob names, component by component. allow-protected takes out exactly the paths that it names.
func (t Target) guards(path string) string {
	for _, g := range t.AllowProtected {
		if ok, err := doublestar.Match(g, path); ok && err == nil {
			return ""
		}
	}
	for _, g := range t.Protected {
		if ok, err := doublestar.Match(g, path); ok || err != nil || leadsTo(g, path) {
			return g
		}
	}
	return ""
}

// leadsTo says that path is a folder in which a path that the glob names could lie.
func leadsTo(glob, path string) bool {
	parts, names := strings.Split(glob, "/"), strings.Split(path, "/")
	for i, name := range names {
		if i >= len(parts)-1 {
			return false
		}
		if parts[i] == "**" {
			return i > 0 // one that begins so would take every path
		}
		if ok, err := doublestar.Match(parts[i], name); !ok || err != nil {
			return err != nil
		}
	}
	return true
}
