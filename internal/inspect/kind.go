package inspect

import (
	"path"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// kind is a class of files that matter by their place. Names are compared without case, since on some
// machines they are.
type kind struct {
	rule, message string
	names         []string // a file of this name anywhere; "*" matches within the name
	folders       []string // anything in a folder of this name, anywhere, and the name itself
	paths         []string // exactly this path from the root, or anything below it
}

var kinds = indexed([]kind{
	{rule: "ci.changed", message: "the change edits what a CI service runs",
		names: []string{".gitlab-ci.yml", ".gitlab-ci.yaml", "jenkinsfile", "jenkinsfile.*", "*.jenkinsfile", ".travis.yml", "azure-pipelines*.yml", "azure-pipelines*.yaml",
			"bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", ".drone.yml", ".drone.star", ".cirrus.yml", ".cirrus.star", "cloudbuild.yaml", "cloudbuild.yml", "buildspec.yml",
			"codemagic.yaml", "bitrise.yml", ".woodpecker.yml", "wercker.yml", "netlify.toml", "vercel.json", "codecov.yml", "dependabot.yml", "renovate.json", "renovate.json5", ".renovaterc", ".renovaterc.json", "codeowners",
			"action.yml", "action.yaml", "*.gitlab-ci.yml", ".zuul.yaml", "zuul.yaml", ".build.yml", ".scrutinizer.yml", ".readthedocs.yml", ".readthedocs.yaml", ".mergify.yml", ".kodiak.toml", "bors.toml", ".bors.toml", ".releaserc*", "release.config.*", ".goreleaser.yml", ".goreleaser.yaml", "release-please-config.json", "semaphore.yml", ".vsts-ci.yml", "dagger.json", ".probot.yml", "sonar-project.properties"},
		paths: []string{".github", ".gitlab", ".circleci", ".forgejo", ".gitea", ".buildkite", ".woodpecker", ".tekton", ".azuredevops", ".teamcity", ".semaphore", ".builds", ".ci", ".zuul.d", ".harness", ".dagger", ".changeset/config.json"}},
	{rule: "hook.changed", message: "the change edits hooks that git runs",
		names:   []string{".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", "lefthook-local.yml", ".huskyrc*", ".overcommit.yml", ".lintstagedrc*", "lint-staged.config.*", ".simple-git-hooks.*", "simple-git-hooks.*", ".commitlintrc*", "commitlint.config.*", ".gitconfig", "cog.toml", "prek.toml"},
		folders: []string{".husky", ".lefthook", ".hooks", ".githooks", ".git-hooks", "git-hooks"}},
	{rule: "agent.config", message: "the change edits instructions or configuration of coding agents",
		names: []string{"agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "crush.md", "warp.md", "conventions.md", ".mcp.json", "mcp.json", ".cursorrules", ".cursorignore", ".windsurfrules", ".clinerules", ".roorules", ".goosehints",
			".aider.conf.yml", ".aiderignore", "opencode.json", "opencode.jsonc", "copilot-instructions.md", "skill.md", ".rules", ".cursorindexingignore", ".claudeignore", ".codexignore", ".geminiignore", ".aider.model.settings.yml", ".roomodes", ".kilocodemodes", ".openhands_instructions", ".windsurfignore", ".clineignore", ".rooignore", "codex.md", "replit.md", "llms.txt", ".mcp.yaml", "mcp-config.json", "claude_desktop_config.json"},
		folders: []string{".claude", ".codex", ".agents", ".cursor", ".gemini", ".windsurf", ".cline", ".clinerules", ".roo", ".continue", ".aider", ".opencode", ".amp", ".augment", ".kiro", ".junie", ".qwen", ".goose", ".crush", ".factory", ".trae", ".agent", ".claude-plugin", ".codex-plugin", ".mcp", ".kilocode", ".openhands", ".devin", ".amazonq", ".rovodev", ".zencoder", ".antigravity", ".tabnine", ".cody", ".sourcegraph", ".copilot", ".jules", ".plandex", ".forge", ".pi", ".sallyport"}},
	{rule: "editor.config", message: "the change edits what an editor, a shell or a container runs when the folder is opened",
		names:   []string{".envrc", ".env", ".env.*", ".dir-locals.el", ".dir-locals-2.el", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".vim-bookmarks", "*.code-workspace", ".devcontainer.json", ".gitpod.yml", ".autoenv", ".autoenv.zsh", "devbox.json", ".sublime-project", ".netrc", ".gdbinit", ".lldbinit", ".replit", "replit.nix", ".gitpod.dockerfile", ".sublime-workspace", "*.sublime-project", "*.sublime-workspace", ".project", ".classpath", ".tmux.conf", ".tmuxinator.yml", ".screenrc", ".direnvrc", ".kakrc", ".pdbrc", ".pythonrc", ".irbrc", ".pryrc", ".rprofile", ".renviron", ".ghci", ".ocamlinit", ".iex.exs", ".psqlrc", ".sqliterc", ".octaverc", ".perldb", "desktop.ini", "autorun.inf", "*.lnk", "*.url", "*.scf", "*.library-ms", "*.code-profile", ".inputrc", ".bashrc", ".zshrc", ".profile", ".bash_profile"},
		folders: []string{".vscode", ".idea", ".zed", ".devcontainer", ".fleet", ".vs", ".nova", ".direnv", ".helix", ".settings", "nbproject", ".run", ".emacs.d", ".vim", ".nvim", ".cursor-server", ".vscode-server", ".coder", ".daytona"}},
	{rule: "container.config", message: "the change edits how images or machines are made",
		names: []string{"dockerfile", "dockerfile.*", "*.dockerfile", "containerfile", "containerfile.*", ".dockerignore", "compose*.yml", "compose*.yaml", "docker-compose*.yml", "docker-compose*.yaml", "docker-bake.hcl", "docker-bake.json", "vagrantfile", "skaffold.yaml", "tiltfile", "*.tf", "*.tofu", "*.nomad", "chart.yaml", "kustomization.yaml", "fly.toml", "procfile", "app.yaml", "serverless.yml", "cloud-init.yml"}},
	configKind,
	{rule: "generated.changed", message: "the name is one of files that programs write",
		names: []string{"*.min.js", "*.min.css", "*.min.mjs", "*.bundle.js", "*.js.map", "*.css.map", "*.pb.go", "*.pb.cc", "*.pb.h", "*.pb.validate.go", "*_pb2.py", "*_pb2_grpc.py", "*_pb.js", "*_pb.ts", "*.g.dart", "*.freezed.dart", "*.designer.cs", "*.g.cs", "*.generated.*", "*_generated.go", "*_generated.rs", "zz_generated.*", "bindata.go", "*_string.go", "*.tsbuildinfo", "*.pyc"}, folders: []string{"__pycache__", "__generated__"}},
	{rule: "vendored.changed", message: "the change edits code of others that is kept in the tree",
		folders: []string{"vendor", "node_modules", "third_party", "third-party", "thirdparty", "bower_components", "pods", "site-packages", ".venv", ".pnp.cjs", ".pnp.loader.mjs"}},
	{rule: "lock.changed", message: "dependencies changed; the checks ran with the base's dependencies",
		names: []string{"go.sum", "go.work.sum", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "deno.lock", "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "pylock*.toml", "conda-lock.yml", "pixi.lock",
			"requirements*.txt", "requirements*.in", "constraints*.txt", "gemfile.lock", "composer.lock", "mix.lock", "rebar.lock", "pubspec.lock", "package.resolved", "podfile.lock", "cartfile.resolved", "packages.lock.json", "paket.lock",
			"gradle.lockfile", "*.lockfile", "verification-metadata.xml", "flake.lock", "stack.yaml.lock", "cabal.project.freeze", "manifest.toml", "conan.lock", "module.bazel.lock", ".terraform.lock.hcl", "dune.lock", "opam.locked", "vcpkg-lock.json", "modules.txt"}},
})

func indexed(kinds []kind) []index {
	out := make([]index, 0, len(kinds))
	for _, k := range kinds {
		out = append(out, k.index())
	}
	return out
}

// kinds judges one path by the tables.
func (i *inspection) kinds(c sallyport.Change) {
	at := placeOf(c.Path)
	for _, k := range kinds {
		if k.holds(at) {
			i.found.add(k.rule, c.Path, k.message)
		}
	}
	switch {
	case dotModules.ends(c.Path):
		i.found.add("submodule.config", c.Path, "the change edits the list of submodules")
	case dotAttributes.ends(c.Path):
		i.found.add("git.attributes", c.Path, "the change edits how git reads and shows files")
	case dotLFS.ends(c.Path):
		i.found.add("lfs.config", c.Path, "the change edits the configuration of Git LFS")
	}
	if runner(at) {
		i.found.add("runner.config", c.Path, "the change edits what builds the project or runs its tests")
	}
	if script(at) && !gone(c) {
		i.found.add("runner.script", c.Path, "building, installing or testing the project runs this file")
	}
	if i.test(c.Path) {
		if gone(c) {
			i.found.add("tests.removed", c.Path, "the change removes a file of the tests")
		} else if !i.added(c) {
			i.found.add("tests.edited", c.Path, "the change edits a test that the base has")
		}
	}
}

// place is one path in the form in which tables are asked.
type place struct {
	path, name string
	parts      []string
}

func placeOf(p string) place {
	p = plain(p)
	return place{p, path.Base(p), strings.Split(p, "/")}
}

// index is a kind made fast to ask: a change may touch many thousands of paths.
type index struct {
	kind
	exact   map[string]bool
	stars   []string
	folders map[string]bool
}

func (k kind) index() index {
	x := index{kind: k, exact: map[string]bool{}, folders: map[string]bool{}}
	for _, n := range k.names {
		if strings.Contains(n, "*") {
			x.stars = append(x.stars, n)
		} else {
			x.exact[n] = true
		}
	}
	for _, f := range k.folders {
		x.folders[f] = true
	}
	return x
}

func (x index) holds(at place) bool {
	if x.exact[at.name] || slices.ContainsFunc(x.stars, func(n string) bool { return nameMatch(n, at.name) }) {
		return true
	}
	if slices.ContainsFunc(x.paths, func(r string) bool { return at.path == r || strings.HasPrefix(at.path, r+"/") }) {
		return true
	}
	return len(x.folders) > 0 && slices.ContainsFunc(at.parts, func(part string) bool { return x.folders[part] })
}

// nameMatch compares a name with one that holds a single "*" for any characters.
func nameMatch(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(head)+len(tail) && strings.HasPrefix(name, head) && strings.HasSuffix(name, tail)
}
