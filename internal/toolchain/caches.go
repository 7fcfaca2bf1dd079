package toolchain

// place is where one cache lies: the first variable that is set names it (with sub below), else fallback.
type place struct {
	env      string // the variable that moves it, and that is set inside where it was moved
	sub      string // below the variable's value
	fallback string // "~/…" or "$XDG_CACHE_HOME/…"
	begins   bool   // worth a mount before it exists: what builds inside write there can be kept
}

// cache is one package manager's store on the host, mounted copy-on-write.
type cache struct {
	name   string
	places []place
	// offline are set in every sandbox, cache or not: there is no network, and these turn a timeout into a
	// sentence.
	offline map[string]string
}

// BUG: gradle has no switch for offline in its environment; with a warm cache it only goes out for dynamic
// versions, and fails there. Yarn 1 has none either.
var caches = []cache{
	{name: "go", places: []place{
		{env: "GOMODCACHE", fallback: "$GOPATH/pkg/mod"},
		{env: "GOCACHE", fallback: "$XDG_CACHE_HOME/go-build", begins: true},
	}, offline: map[string]string{"GOPROXY": "off"}},
	{name: "npm", places: []place{{env: "npm_config_cache", sub: "_cacache", fallback: "~/.npm/_cacache"}}, offline: map[string]string{
		"npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false"}},
	{name: "pnpm", places: []place{
		{env: "npm_config_store_dir", fallback: "~/.local/share/pnpm/store"},
		{fallback: "~/.pnpm-store"},
		{fallback: "$XDG_CACHE_HOME/pnpm"},
	}},
	{name: "yarn", places: []place{
		{env: "YARN_CACHE_FOLDER", fallback: "$XDG_CACHE_HOME/yarn"},
		{fallback: "~/.yarn/berry/cache"},
	}, offline: map[string]string{"YARN_ENABLE_NETWORK": "0", "YARN_ENABLE_TELEMETRY": "0"}},
	{name: "bun", places: []place{{env: "BUN_INSTALL_CACHE_DIR", fallback: "~/.bun/install/cache"}}},
	{name: "deno", places: []place{{env: "DENO_DIR", fallback: "$XDG_CACHE_HOME/deno"}}, offline: map[string]string{"DENO_NO_UPDATE_CHECK": "1"}},
	{name: "pip", places: []place{{env: "PIP_CACHE_DIR", fallback: "$XDG_CACHE_HOME/pip"}}, offline: map[string]string{
		"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}},
	{name: "uv", places: []place{{env: "UV_CACHE_DIR", fallback: "$XDG_CACHE_HOME/uv"}}, offline: map[string]string{
		"UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}},
	{name: "cargo", places: []place{
		{env: "CARGO_HOME", sub: "registry", fallback: "~/.cargo/registry"},
		{env: "CARGO_HOME", sub: "git", fallback: "~/.cargo/git"},
	}, offline: map[string]string{"CARGO_NET_OFFLINE": "true"}},
	// mvn reads MAVEN_ARGS since 3.9; the wrapper reads MAVEN_CONFIG.
	{name: "maven", places: []place{{fallback: "~/.m2/repository"}, {fallback: "~/.m2/wrapper"}}, offline: map[string]string{
		"MAVEN_ARGS": "-o", "MAVEN_CONFIG": "-o"}},
	{name: "gradle", places: []place{
		{env: "GRADLE_USER_HOME", sub: "caches", fallback: "~/.gradle/caches"},
		{env: "GRADLE_USER_HOME", sub: "wrapper", fallback: "~/.gradle/wrapper"},
	}},
	{name: "coursier", places: []place{{env: "COURSIER_CACHE", fallback: "$XDG_CACHE_HOME/coursier"}, {fallback: "~/.ivy2/cache"}}, offline: map[string]string{"COURSIER_MODE": "offline"}},
	{name: "composer", places: []place{{env: "COMPOSER_CACHE_DIR", fallback: "$XDG_CACHE_HOME/composer"}}, offline: map[string]string{"COMPOSER_DISABLE_NETWORK": "1"}},
	{name: "nuget", places: []place{{env: "NUGET_PACKAGES", fallback: "~/.nuget/packages"}}, offline: map[string]string{
		"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}},
	{name: "playwright", places: []place{{env: "PLAYWRIGHT_BROWSERS_PATH", fallback: "$XDG_CACHE_HOME/ms-playwright"}}},
}
