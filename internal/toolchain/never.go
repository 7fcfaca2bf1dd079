package toolchain

import (
	"strings"
)

// secrets are never mounted, nor anything in them; where one lies inside of a mounted folder it is hidden.
var secrets = []string{
	"~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.kube", "~/.docker", "~/.netrc", "~/.git-credentials", "~/.gitconfig",
	"~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.pypirc", "~/.pip", "~/.condarc", "~/.boto", "~/.s3cfg", "~/.pgpass", "~/.my.cnf",
	"~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.m2/settings.xml", "~/.m2/settings-security.xml", "~/.m2/settings-security4.xml",
	"~/.gradle/gradle.properties", "~/.gradle/init.d", "~/.gem/credentials", "~/.local/share/gem/credentials", "~/.bundle/config",
	"~/.composer/auth.json", "~/.terraform.d", "~/.terraformrc", "~/.vault-token", "~/.password-store", "~/.local/share/keyrings",
	"~/.local/share/uv/credentials", "~/.local/share/pnpm/auth.ini", "~/.local/share/containers", "~/.local/share/direnv",
	"~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.config/gcloud", "~/.config/git", "~/.config/pip", "~/.config/pnpm",
	"~/.config/composer/auth.json", "~/.config/pypoetry", "~/.config/containers", "~/.config/rclone", "~/.config/sops", "~/.config/age",
	"~/.config/google-chrome", "~/.config/chromium", "~/.mozilla", "~/.thunderbird", "~/snap",
	"~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.cursor", "~/.config/claude", "~/.config/opencode", "~/.local/share/opencode",
	"~/.bash_history", "~/.zsh_history", "~/.python_history", "~/.node_repl_history", "~/.psql_history", "~/.local/share/fish",
	"/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/machine-id", "/etc/sallyport",
	"/proc", "/sys", "/dev", "/run", "/boot",
}

// wholesale folders hold too much to be mounted as one. Folders inside them may be.
var wholesale = []string{
	"/", "/etc", "/home", "/root", "/var", "/var/lib", "/tmp", "/mnt", "/media", "/srv",
	"~", "~/.config", "~/.local", "~/.local/share", "~/.local/state", "~/.cache", "~/.cargo", "~/.m2", "~/.gradle", "~/.gem", "~/.npm",
}

// refused says why path may not be mounted; "" if it may. Known tool roots inside of a secret folder
// (~/.claude/local) may.
func (r *resolver) refused(path string) string {
	for _, w := range r.wholesale {
		if within(w, path) {
			return "it holds more than a tool"
		}
	}
	if _, _, known := matchRoots(r.roots, path, true); known {
		return r.refusedIn(r.extraNever, path)
	}
	return r.refusedIn(r.secrets, path)
}

func (r *resolver) refusedIn(list []string, path string) string {
	for _, s := range list {
		if within(path, s) {
			return "credentials or private state live there"
		}
	}
	return ""
}

// within reports whether path is dir or lies below it. Both are clean and absolute.
func within(path, dir string) bool {
	if dir == "/" {
		return true
	}
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
