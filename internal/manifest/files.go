package manifest

// The files as people write them. Reader and schema are both made from these types; `doc` is what an
// editor shows.

type repositoryFile struct {
	Version     version           `yaml:"version,required" doc:"The format's version: 1."`
	Scope       *scopeFile        `yaml:"scope" doc:"Which paths a change may touch. Deny wins."`
	Tools       *toolsChoice      `yaml:"tools" doc:"Programs of the host shown read-only: auto finds them from PATH, none shows the system only, a list adds exact paths and needs the operator's grant."`
	Caches      *cachesChoice     `yaml:"caches" doc:"Package caches of the host, shown copy-on-write. A list needs the operator's grant."`
	Deps        *[]relative       `yaml:"deps" doc:"Git-ignored dependency folders of the user's work tree, shown copy-on-write. Needs the operator's grant."`
	Copy        *[]fileName       `yaml:"copy" doc:"Files of the user's work tree that the agent is given and that are never part of a change. Needs the operator's grant."`
	Env         *envMap           `yaml:"env" doc:"Environment variables of agent and checks. Needs the operator's grant."`
	Limits      *limitsFile       `yaml:"limits" doc:"Bounds of one sandbox."`
	Egress      *egressList       `yaml:"egress" doc:"What the agent may reach: presets, hosts and rules. Omitted or []: nothing. Needs the operator's grant."`
	Credentials *[]credentialName `yaml:"credentials" doc:"Names of credentials that the user's config.yaml defines; the agent sees placeholders. Needs the operator's grant."`
	History     *history          `yaml:"history" doc:"How many commits of the base's history the agent sees: 1, N or full."`
	Require     *requireList      `yaml:"require" doc:"Containment layers that must hold beyond the default, or all."`
	Checks      *[]checkFile      `yaml:"checks" doc:"Commands that judge a change, from the base, in a fresh sandbox without network."`
	Setup       *[]setupFile      `yaml:"setup" doc:"Commands that install what the tree does not hold, from the base, before the agent and for the checks."`
	Parallel    *parallel         `yaml:"parallel" doc:"How many checks run at the same time; omitted: 1."`
	Findings    *severityMap      `yaml:"findings" doc:"Severities of inspection rules. The repository's file can only raise them."`
	Publish     *publishFile      `yaml:"publish" doc:"Where an accepted change goes, and who must say so first."`
}

type workOrderFile struct {
	Version     version           `yaml:"version,required" doc:"The format's version: 1."`
	Name        *nameText         `yaml:"name" doc:"Identity within the repository and last part of the branch; made from the task when omitted."`
	Task        *text             `yaml:"task" doc:"What the agent is asked to do."`
	Base        *revision         `yaml:"base" doc:"The revision to start from; the current branch when omitted."`
	Agent       *agentName        `yaml:"agent" doc:"An agent preset. Exactly one of agent and command."`
	Command     *[]argument       `yaml:"command" doc:"Program and arguments. Exactly one of agent and command."`
	Scope       *scopeFile        `yaml:"scope" doc:"Narrows the repository's scope."`
	Limits      *limitsFile       `yaml:"limits" doc:"Narrows the repository's limits."`
	Attempts    *attempts         `yaml:"attempts" doc:"How often a rejected result is tried again, with the findings."`
	Copy        *[]fileName       `yaml:"copy" doc:"Files of the user's work tree that the agent is given and that are never part of the change."`
	Env         *envMap           `yaml:"env" doc:"Environment variables of agent and checks."`
	History     *history          `yaml:"history" doc:"How many commits of the base's history the agent sees: 1, N or full."`
	Require     *requireList      `yaml:"require" doc:"Containment layers that must hold beyond the default, or all."`
	Publish     *publishFile      `yaml:"publish" doc:"Narrows the repository's publish."`
	Egress      *egressList       `yaml:"egress" doc:"Narrows what the agent may reach. []: nothing."`
	Credentials *[]credentialName `yaml:"credentials" doc:"Narrows the credentials that the agent may use, by name. []: none."`
}

// operatorFile is /etc/sallyport/policy.yaml (ceilings) and the user's config.yaml (defaults and grants).
type operatorFile struct {
	Version     version           `yaml:"version,required" doc:"The format's version: 1."`
	Agent       *agentName        `yaml:"agent" doc:"The agent preset used when a run names none."`
	Agents      *[]agentName      `yaml:"agents" doc:"The only agents that may run; the word command stands for any bare command."`
	Limits      *limitsFile       `yaml:"limits" doc:"The most that a run gets."`
	Require     *requireList      `yaml:"require" doc:"Containment layers that must hold beyond the default, or all."`
	Protected   *refName          `yaml:"protected" doc:"The ref whose sallyport.yaml and paths count; omitted: the remote's default branch, else HEAD."`
	Publish     *publishFile      `yaml:"publish" doc:"to: the furthest a change may go. approve: the least caution allowed."`
	Scope       *denyFile         `yaml:"scope" doc:"Paths that no change may touch, whatever the repository says."`
	Grants      *grantRule        `yaml:"grants" doc:"forbid: nothing a repository asks of the host is granted, and no flag goes beyond the repository's policy."`
	Tools       *extraTools       `yaml:"tools" doc:"Paths of the host shown read-only to every run, beside what the repository gets."`
	Caches      *cachesChoice     `yaml:"caches" doc:"Replaces the repository's caches: auto, none or a list."`
	Copy        *[]fileName       `yaml:"copy" doc:"Files of the user's work tree that every agent is given, where they exist, and that are never part of a change."`
	Parallel    *parallel         `yaml:"parallel" doc:"The most checks that run at the same time."`
	Findings    *severityMap      `yaml:"findings" doc:"Severities of inspection rules, raised or lowered."`
	Egress      *egressList       `yaml:"egress" doc:"policy.yaml: the most that an agent may reach. config.yaml: what every agent of yours may reach."`
	Resolve     *resolveMap       `yaml:"resolve" doc:"Addresses of names that no agent's question decides; every other name is looked up."`
	Credentials *[]credentialFile `yaml:"credentials" doc:"Secrets that the gateway puts into requests; a run uses those that a granted sallyport.yaml or --credential names."`
}

type scopeFile struct {
	Allow *[]glob `yaml:"allow" doc:"Omitted: all paths. []: nothing."`
	Deny  *[]glob `yaml:"deny" doc:"Omitted: CI and policy files. []: nothing."`
}

type denyFile struct {
	Deny *[]glob `yaml:"deny,required" doc:"Patterns always added to the denied paths."`
}

type limitsFile struct {
	Time   *duration  `yaml:"time" doc:"Runtime, over all attempts."`
	Memory *size      `yaml:"memory" doc:"Memory."`
	PIDs   *pids      `yaml:"pids" doc:"Processes and threads."`
	Disk   *size      `yaml:"disk" doc:"Workspace, home, /tmp and /dev/shm together."`
	Output *size      `yaml:"output" doc:"Kept output of one command; more is counted and dropped."`
	CPUs   *cpus      `yaml:"cpus" doc:"Processors; omitted: no limit."`
	Spend  *spendFile `yaml:"spend" doc:"What all attempts together may spend on model APIs; omitted: no limit."`
}

type checkFile struct {
	Name    checkName `yaml:"name,required" doc:"Unique name."`
	Run     text      `yaml:"run,required" doc:"Command line for sh -c."`
	Dir     *relative `yaml:"dir" doc:"Folder to run in; omitted: the repository's root."`
	When    *[]glob   `yaml:"when" doc:"Runs only if the change touches one of these; omitted: always."`
	Tests   *[]glob   `yaml:"tests" doc:"Files that are tests; a change to them is also judged with the base's put back. Omitted: by language."`
	Timeout *duration `yaml:"timeout" doc:"Omitted: 15m."`
	// Controls: what must be seen besides a pass.
	Base           *onBase         `yaml:"base" doc:"What the check must do on the untouched base: pass, fail or any."`
	NewTestsOnBase *newTestsOnBase `yaml:"new-tests-on-base" doc:"fail: the change's tests, run on the base's code, must fail. Omitted: they are not run."`
	PlantedFault   *plantedFault   `yaml:"planted-fault" doc:"A fault after which the check must fail: auto breaks a changed line, a path names a patch of the repository."`
	MinTests       *minTests       `yaml:"min-tests" doc:"At least so many tests must have run."`
	TestsNotFewer  *yes            `yaml:"tests-not-fewer" doc:"true: at least as many tests must have run as on the base."`
	Report         *reportFile     `yaml:"report" doc:"Where and in what form the check tells of its tests; omitted: recognised in its output."`
	Retries        *retries        `yaml:"retries" doc:"So many further runs after a failure; a check that passes then is flaky and never accepted silently."`
}

type reportFile struct {
	Format reportFormat `yaml:"format,required" doc:"The form of the report."`
	Path   *fileName    `yaml:"path" doc:"The report's file, relative to the check's dir; omitted: its output."`
}

type publishFile struct {
	To         *publishTo     `yaml:"to" doc:"none, branch (a ref in this repository), or pr: a pull request, opened by the Publisher."`
	Repository *repositoryURL `yaml:"repository" doc:"With pr: where, as the Publisher's targets name it; default the address of the remote origin."`
	Base       *refName       `yaml:"base" doc:"With pr: the branch that is to be changed; default the branch of the base."`
	Approvers  *approverCount `yaml:"approvers" doc:"With pr: so many people, not the submitter, must have approved with keys that the Publisher pins."`
	Approve    *approve       `yaml:"approve" doc:"Who must say so first: always a person, a person on findings, nobody."`
}

func (f *scopeFile) allow() *[]string {
	if f == nil {
		return nil
	}
	return plainAt(f.Allow)
}

func (f *scopeFile) deny() []string {
	if f == nil || f.Deny == nil {
		return nil
	}
	return plain(*f.Deny)
}
