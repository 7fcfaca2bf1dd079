package toolchain

// root is one place where a tool lives. The smallest folder that works is mounted, read-only, at its own
// path.
//
// A base begins with "~/", "$NAME/" (a variable of the operator; the entry is void where it is unset) or
// "/". A component "*" or "name*" matches one component, so that one version is mounted and not all.
type root struct {
	tool string
	base []string
	with []string // mounted along where they exist: same syntax, with "*" expanded
	// hide are paths below base (with "*") that hold credentials and nothing else.
	hide []string
	// suspect are paths below base that usually hold none: hidden only where their content looks like one.
	suspect []string
}

// npmPrefixFiles are npm's own configuration in a node prefix.
var npmPrefixFiles = []string{"etc/npmrc", "lib/node_modules/npm/npmrc", ".npmrc"}

// gitConfigs hold remotes, whose URLs may carry a password, in tools that install themselves by git clone.
var gitConfigs = []string{".git/config", "plugins/*/.git/config", "repository/.git/config"}

// roots is the table. Order does not matter: the longest match wins.
var roots = []root{
	// Go.
	{tool: "go", base: []string{"$GOROOT", "~/sdk/go*", "~/.local/go", "~/.go", "~/.gvm/gos/*", "~/.goenv"}, suspect: gitConfigs},
	{tool: "gobin", base: []string{"$GOBIN", "~/go/bin", "~/.gvm/bin"}},

	// Node.
	{tool: "nvm", base: []string{"~/.nvm/versions/node/*", "$NVM_DIR/versions/node/*", "~/.config/nvm/versions/node/*", "~/.nvm/versions/io.js/*"}, suspect: npmPrefixFiles},
	{tool: "volta", base: []string{"~/.volta", "$VOLTA_HOME"}, suspect: []string{"tools/image/node/*/etc/npmrc"}},
	{tool: "fnm", base: []string{"~/.local/share/fnm/node-versions/*", "~/.fnm/node-versions/*", "$FNM_DIR/node-versions/*"},
		suspect: []string{"installation/etc/npmrc"}},
	{tool: "nodenv", base: []string{"~/.nodenv"}, suspect: append([]string{"versions/*/etc/npmrc"}, gitConfigs...)},
	{tool: "n", base: []string{"~/n", "$N_PREFIX/n"}, suspect: npmPrefixFiles},
	{tool: "npm", base: []string{"~/.npm-global", "~/.npm-packages", "$NPM_PREFIX"}, suspect: npmPrefixFiles},
	{tool: "yarn", base: []string{"~/.yarn/bin", "~/.config/yarn/global"}, suspect: []string{".npmrc", ".yarnrc"}},
	{tool: "pnpm", base: []string{"~/.local/share/pnpm", "$PNPM_HOME"}, hide: []string{"auth.ini"}, suspect: []string{"rc", ".npmrc", "global/*/.npmrc"}},
	{tool: "bun", base: []string{"~/.bun/bin", "$BUN_INSTALL/bin", "~/.bun/install/global"}, with: []string{"~/.bun/install/global"}, suspect: []string{".npmrc", "bunfig.toml"}},
	{tool: "deno", base: []string{"~/.deno/bin", "$DENO_INSTALL/bin", "$DENO_INSTALL_ROOT/bin"}},

	// Python.
	{tool: "pyenv", base: []string{"~/.pyenv", "$PYENV_ROOT"}, suspect: append([]string{"versions/*/pip.conf"}, gitConfigs...)},
	// Not ~/.local/share/uv: its credentials store lies beside.
	{tool: "uv", base: []string{"~/.local/share/uv/python", "~/.local/share/uv/tools", "$UV_PYTHON_INSTALL_DIR", "$UV_TOOL_DIR"},
		with: []string{"~/.local/share/uv/python"}, suspect: []string{"*/pip.conf"}},
	{tool: "pipx", base: []string{"~/.local/share/pipx/venvs", "~/.local/pipx/venvs", "$PIPX_HOME/venvs"},
		with: []string{"~/.local/share/pipx/shared", "~/.local/pipx/shared"}, suspect: []string{"*/pip.conf"}},
	{tool: "conda", base: []string{"~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "~/micromamba", "~/.conda/envs/*", "/opt/conda", "/opt/miniconda3", "/opt/anaconda3"},
		suspect: []string{".condarc", "condarc", "envs/*/pip.conf", "pip.conf"}},
	{tool: "rye", base: []string{"~/.rye/shims", "~/.rye/py", "~/.rye/tools"}},
	{tool: "hatch", base: []string{"~/.local/share/hatch/env", "~/.local/share/hatch/pythons"}},
	{tool: "poetry", base: []string{"~/.local/share/pypoetry/venv"}},
	{tool: "virtualenvs", base: []string{"~/.virtualenvs/*", "$WORKON_HOME/*", "~/.local/share/virtualenvs/*"}, suspect: []string{"pip.conf"}},

	// Many languages at once.
	{tool: "asdf", base: []string{"~/.asdf", "$ASDF_DATA_DIR", "$ASDF_DIR"}, suspect: append([]string{"installs/nodejs/*/etc/npmrc", "installs/python/*/pip.conf"}, gitConfigs...)},
	{tool: "mise", base: []string{"~/.local/share/mise", "$MISE_DATA_DIR"}, suspect: append([]string{"installs/node/*/etc/npmrc", "installs/python/*/pip.conf"}, gitConfigs...)},
	{tool: "nix", base: []string{"/nix/store"}},
	{tool: "guix", base: []string{"/gnu/store"}},
	{tool: "homebrew", base: []string{"/home/linuxbrew/.linuxbrew", "~/.linuxbrew"}, suspect: append([]string{"etc/npmrc", "Homebrew/.git/config"}, gitConfigs...)},

	// Rust. Not ~/.cargo: credentials.toml lies in it.
	{tool: "rustup", base: []string{"~/.cargo/bin", "$CARGO_HOME/bin", "~/.rustup", "$RUSTUP_HOME"}, with: []string{"~/.rustup", "$RUSTUP_HOME"}},

	// JVM.
	{tool: "sdkman", base: []string{"~/.sdkman/candidates", "$SDKMAN_DIR/candidates"},
		suspect: []string{"maven/*/conf/settings.xml", "gradle/*/gradle.properties", "gradle/*/init.d/*"}},
	{tool: "jenv", base: []string{"~/.jenv"}, suspect: gitConfigs},
	{tool: "jdks", base: []string{"~/.jdks/*", "~/.gradle/jdks/*", "$JAVA_HOME"}},
	{tool: "coursier", base: []string{"~/.local/share/coursier/bin"}},

	// Others.
	{tool: "rbenv", base: []string{"~/.rbenv", "$RBENV_ROOT"}, suspect: gitConfigs},
	{tool: "rvm", base: []string{"~/.rvm/rubies", "~/.rvm/gems", "~/.rvm/bin", "~/.rvm/wrappers", "~/.rvm/scripts"}, with: []string{"~/.rvm/rubies", "~/.rvm/gems", "~/.rvm/scripts"}},
	{tool: "gem", base: []string{"~/.gem/ruby", "~/.local/share/gem/ruby"}},
	{tool: "dotnet", base: []string{"~/.dotnet", "$DOTNET_ROOT"}},
	{tool: "composer", base: []string{"~/.composer/vendor", "~/.config/composer/vendor"}},
	{tool: "ghcup", base: []string{"~/.ghcup/bin", "~/.ghcup/ghc", "~/.cabal/bin"}, with: []string{"~/.ghcup/ghc"}},
	{tool: "opam", base: []string{"~/.opam"}, suspect: []string{"repo/*/.git/config"}},
	{tool: "juliaup", base: []string{"~/.juliaup", "~/.julia/juliaup"}},
	{tool: "swiftly", base: []string{"~/.local/share/swiftly"}},

	// The user's own programs, and agents that install themselves beside them. None of these folders holds
	// the agent's credentials (~/.claude, ~/.codex, … do, and are not mounted).
	{tool: "local", base: []string{"~/.local/bin"}, with: []string{"~/.local/lib/python*", "~/.local/lib/node_modules"}},
	{tool: "local-lib", base: []string{"~/.local/lib/python*", "~/.local/lib/node_modules"}},
	{tool: "claude", base: []string{"~/.local/share/claude/versions", "~/.claude/local"}, suspect: []string{".npmrc"}},
	{tool: "cursor-agent", base: []string{"~/.local/share/cursor-agent/versions"}},
	{tool: "opencode", base: []string{"~/.opencode/bin"}},
	{tool: "amp", base: []string{"~/.amp/bin"}},
}

// companion is a small file in the home that a tool reads to find its versions. It is mounted with the tool,
// unless its content looks like a credential.
type companion struct{ tool, path string }

var companions = []companion{
	{"asdf", "~/.tool-versions"},
	{"asdf", "~/.asdfrc"},
	{"mise", "~/.tool-versions"},
	{"mise", "~/.config/mise/config.toml"},
	{"rustup", "~/.cargo/config.toml"},
	{"rustup", "~/.cargo/config"},
}
