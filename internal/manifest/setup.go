package manifest

import (
	"fmt"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/setup"
)

// setupFile is one entry of `setup:`.
type setupFile struct {
	Run            text        `yaml:"run,required" doc:"Command line for sh -c."`
	Dir            *relative   `yaml:"dir" doc:"Folder to run in; omitted: the repository's root."`
	Egress         *egressList `yaml:"egress" doc:"What this command may reach: presets, hosts and rules. Omitted or []: nothing. Needs the operator's grant."`
	Timeout        *duration   `yaml:"timeout" doc:"Omitted: 10m."`
	Locks          *[]fileName `yaml:"locks" doc:"Files whose change makes another result: where a change edits one, without-scripts runs from it. Omitted: the lock files that the command's package manager reads in dir."`
	WithoutScripts *text       `yaml:"without-scripts" doc:"What runs in place of run where a change edits a lock file: it must run nothing that the lock file brings. Omitted: known for npm, pnpm, yarn, go and cargo, else nothing."`
}

// DefaultSetupTimeout is a setup command's timeout when its file says none.
const DefaultSetupTimeout = 10 * time.Minute

// setups writes the defaults; nil: not said.
func setups(files *[]setupFile) []sallyport.Setup {
	if files == nil {
		return nil
	}
	out := make([]sallyport.Setup, len(*files))
	for i, f := range *files {
		out[i] = f.setup()
	}
	return out
}

func (f setupFile) setup() sallyport.Setup {
	s := sallyport.Setup{Run: string(f.Run), Egress: []sallyport.EgressRule{}, Timeout: DefaultSetupTimeout}
	if f.Dir != nil {
		s.Dir = string(*f.Dir)
	}
	if rules := f.Egress.rules(); rules != nil {
		s.Egress = *rules
	}
	if f.Timeout != nil {
		s.Timeout = time.Duration(*f.Timeout)
	}
	s.Locks = setup.Locks(s.Run, s.Dir)
	if f.Locks != nil {
		s.Locks = plain(*f.Locks)
	}
	s.WithoutScripts = setup.WithoutScripts(s.Run)
	if f.WithoutScripts != nil {
		s.WithoutScripts = string(*f.WithoutScripts)
	}
	return s
}

// setupAsks are the ways out of setup commands. The command is part of what is granted: it decides what goes there.
func setupAsks(list []sallyport.Setup) []Ask {
	var out []Ask
	for i, s := range list {
		for j, r := range s.Egress {
			out = append(out, Ask{fmt.Sprintf("setup %q egress %s", s.Run, egress.Line(r)), "while it runs, before the agent, the command and all that it installs can exchange anything with it", fmt.Sprintf("setup[%d].egress[%d]", i, j)})
		}
	}
	return out
}

// setup is what the repository says (granted: checkGrants), its ways out below the ceiling. nil: none.
func (c *compiler) setup() ([]sallyport.Setup, error) {
	rep := c.in.Repository
	if rep == nil || len(rep.Setup) == 0 {
		return nil, nil
	}
	out := make([]sallyport.Setup, len(rep.Setup))
	for i, s := range rep.Setup {
		var err error
		if s.Egress, err = c.belowCeiling(distinct(s.Egress)); err != nil {
			return nil, err
		}
		s.Locks = append([]string{}, s.Locks...)
		out[i] = s
	}
	return out, nil
}
