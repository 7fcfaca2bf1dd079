package inspect

import (
	"slices"
	"strings"
)

// runnerKind are the files that decide what a check's command really does. Validation puts the base's back
// and runs the checks that way as well.
var runnerKind = kind{
	names: []string{
		// Make-like.
		"makefile", "gnumakefile", "bsdmakefile", "makefile.*", "*.mk", "*.mak", "justfile", ".justfile", "taskfile*.yml", "taskfile*.yaml", "taskfile", "magefile.go", "earthfile", "rakefile", "snakefile", "sconstruct", "sconscript", "wscript", "dodo.py", "noxfile.py", "tasks.py", "fabfile.py",
		"cmakelists.txt", "*.cmake", "cmakepresets.json", "meson.build", "meson_options.txt", "meson.options", "configure", "configure.ac", "makefile.am", "xmake.lua", "build.ninja", "ctestconfig.cmake",
		"build", "build.bazel", "workspace", "workspace.bazel", "workspace.bzlmod", "module.bazel", "*.bzl", ".bazelrc", ".bazelversion", ".bazelignore", "buck", ".buckconfig", "pants.toml",
		// Go.
		"go.mod", "go.work", ".golangci.yml", ".golangci.yaml", ".golangci.toml",
		// JavaScript.
		"package.json", "pnpm-workspace.yaml", ".pnpmfile.cjs", "lerna.json", "nx.json", "turbo.json", "rush.json", "workspace.json", "project.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "deno.json", "deno.jsonc", "tsconfig*.json", "jsconfig.json",
		"jest.config.*", "jest.setup.*", "jest-preset.*", "vitest.config.*", "vitest.setup.*", "vitest.workspace.*", "vite.config.*", "karma.conf.*", "ava.config.*", ".mocharc*", "mocha.opts", ".nycrc*", ".c8rc*", ".taprc", "wdio.conf.*", "playwright.config.*", "cypress.config.*", "cypress.json", "nightwatch.conf.*", "protractor.conf.*",
		"babel.config.*", ".babelrc*", ".swcrc", "webpack.config.*", "rollup.config.*", "rspack.config.*", "esbuild.config.*", "tsup.config.*", "metro.config.*", "gulpfile.*", "gruntfile.*", "angular.json", ".eslintrc*", "eslint.config.*", "biome.json", ".testcaferc*",
		// Python.
		"pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "pytest.toml", "conftest.py", "manage.py", "sitecustomize.py", "usercustomize.py", "*.pth", ".coveragerc", "mypy.ini", ".mypy.ini", "pipfile", "hatch.toml", "pixi.toml", "uv.toml", "pdm.toml", "ruff.toml", ".ruff.toml", "pyvenv.cfg", "environment.yml",
		// Rust.
		"cargo.toml", "build.rs", "rust-toolchain", "rust-toolchain.toml", "nextest.toml", "clippy.toml", ".clippy.toml", "rustfmt.toml",
		// JVM.
		"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "init.gradle", "init.gradle.kts", "gradle.properties", "gradlew", "gradlew.bat", "gradle-wrapper.properties", "gradle-wrapper.jar", "mvnw", "mvnw.cmd", "build.xml", "ivy.xml", "build.sbt", "build.sc", "testng.xml", "junit-platform.properties", "deps.edn", "project.clj", "shadow-cljs.edn", "bb.edn",
		// Others.
		"gemfile", "*.gemspec", ".rspec", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "composer.json", "pest.php", "mix.exs", "rebar.config", "test_helper.exs", "package.swift", "*.csproj", "*.fsproj", "*.vbproj", "*.sln", "*.slnx", "*.props", "*.targets", "global.json", "nuget.config", "*.runsettings",
		"stack.yaml", "*.cabal", "cabal.project", "setup.hs", "dune", "dune-project", "*.opam", "build.zig", "build.zig.zon", "project.toml", "runtests.jl", "pubspec.yaml", "dart_test.yaml", "*.rockspec", ".busted", "build.pl", "makefile.pl", ".proverc", "description", "shard.yml", "*.nimble", "config.nims", "conanfile.py", "conanfile.txt", "vcpkg.json",
		// Versions of tools, environments.
		".tool-versions", ".mise.toml", "mise.toml", ".nvmrc", ".node-version", ".python-version", ".ruby-version", ".go-version", ".java-version", ".sdkmanrc", ".env", ".env.*", ".envrc", "flake.nix", "shell.nix", "default.nix", "devbox.json",
	},
	folders: []string{".cargo", ".mvn", ".yarn", "buildsrc", "build-logic", ".config-nextest"},
	paths:   []string{"gradle", "project/build.properties", "project/plugins.sbt", ".config/nextest.toml", ".config/mise", ".mise", "tools/bazel"},
}.index()

// RunnerConfig reports whether a path is build or test-runner configuration: a file through which a change
// could make a check pass without doing what it should.
func RunnerConfig(p string) bool { return runnerKind.holds(placeOf(p)) }

// scripts are the configuration files that are programs themselves, run by merely building or testing.
var scripts = []string{"build.rs", "setup.py", "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", ".pnpmfile.cjs", "config.nims", "configure", "gradlew", "mvnw", "gradle-wrapper.jar", "init.gradle", "init.gradle.kts"}

func script(at place) bool {
	if slices.Contains(at.parts, ".cargo") && strings.HasPrefix(at.name, "config") {
		return true
	}
	return slices.ContainsFunc(scripts, func(n string) bool { return nameMatch(n, at.name) })
}

// lifecycle are the scripts of a package.json that npm runs without being asked.
var lifecycle = []string{"preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish", "prepublishOnly", "prepack", "postpack", "dependencies"}
