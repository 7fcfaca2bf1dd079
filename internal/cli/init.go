package cli

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/manifest"
)

func (a *app) initVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented sallyport.yaml for this repository",
		Long: `Look at this repository's languages, test commands and dependency folders and write a commented
sallyport.yaml at its root. What the file then asks of your machine is granted, as you made it. An
existing file is never overwritten.`,
		Example: "  sallyport init && $EDITOR sallyport.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root := repositoryOf(a.Dir)
			if root == "" {
				return invalid("init", a.Dir, "expected a folder in a git repository", "git init")
			}
			path, err := manifest.WriteInit(root)
			if err != nil {
				return err
			}
			rep, err := readPolicy(path)
			if err != nil {
				return err
			}
			a.describe(path, rep)
			return a.grantOwn(root, rep)
		},
	}
}

func readPolicy(path string) (manifest.Repository, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return manifest.Repository{}, &sallyport.Error{Op: "init", Code: sallyport.CodeUnavailable, Subject: path, Message: "the new file cannot be read", Err: err}
	}
	return manifest.ParseRepository(manifest.FileName, data)
}

func (a *app) describe(path string, rep manifest.Repository) {
	a.say("wrote %s", path)
	for _, c := range rep.Checks {
		where := ""
		if c.Dir != "" {
			where = " in " + c.Dir
		}
		a.say("  check %s: %s%s", c.Name, c.Run, where)
	}
	if len(rep.Checks) == 0 {
		a.say("  no test command was found: until checks are defined, a person must approve every change")
	}
	for _, d := range rep.Deps {
		a.say("  deps %s", d)
	}
	a.say("next: read it, commit it, then `sallyport run -m TASK --agent claude-code`")
}

// grantOwn records the grant for what init wrote itself; a file without asks needs none.
func (a *app) grantOwn(root string, rep manifest.Repository) error {
	if len(manifest.Asks(rep)) == 0 {
		return nil
	}
	config, err := a.configFolder()
	if err != nil {
		return err
	}
	return manifest.OpenGrants(manifest.GrantsPath(config)).Grant(root, rep, time.Now())
}

// configFolder is os.UserConfigDir for the environment that this command line was given.
func (a *app) configFolder() (string, error) {
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config"), nil
	}
	return "", invalid("init", "HOME", "expected an absolute path", "set HOME")
}
