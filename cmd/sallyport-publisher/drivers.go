package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/git"
	"sallyport.dev/sallyport/internal/forge/gitea"
	"sallyport.dev/sallyport/internal/forge/github"
	"sallyport.dev/sallyport/internal/forge/gitlab"
	"sallyport.dev/sallyport/internal/githubapp"
	"sallyport.dev/sallyport/internal/publisher"
)

// driver is the one for a target's kind.
func driver(t publisher.Target) (forge.Driver, error) {
	c := t.Credential
	switch t.Kind {
	case "gitea":
		g := gitea.Config{URL: t.Repository, CAFile: t.CAFile}
		if c.Password != "" {
			g.Mint = &gitea.Mint{User: c.User, Password: secretFile(c.Password)}
		} else {
			g.Credential = secretFile(c.TokenFile)
		}
		if c.SSHKey != "" {
			g.SSH = &gitea.SSH{URL: t.Push, Key: c.SSHKey, KnownHosts: c.KnownHost}
		}
		return gitea.New(g)
	case "github":
		g := github.Config{URL: t.Repository, API: t.API, CAFile: t.CAFile, Attestations: t.Attestations}
		if c.App != nil {
			pem, err := secretBytes(c.App.KeyFile)(context.Background())
			if err != nil {
				return nil, err
			}
			key, err := githubapp.Key(pem)
			if err != nil {
				return nil, &sallyport.Error{Op: "read a credential", Code: sallyport.CodeInvalid, Subject: c.App.KeyFile, Message: "the App's key is " + err.Error(), Hint: "download one in the App's settings"}
			}
			g.App, g.RepositoryID = &github.App{ID: c.App.ID, Key: key, Installation: c.App.Installation}, c.App.RepositoryID
		} else {
			g.Credential = secretFile(c.TokenFile)
		}
		return github.New(g)
	case "gitlab":
		g := gitlab.Config{URL: t.Repository, CAFile: t.CAFile, ProjectID: c.ProjectID}
		if c.Owner != "" {
			g.Owner = secretFile(c.Owner)
		} else {
			g.Credential = secretFile(c.TokenFile)
		}
		return gitlab.New(g)
	case "git":
		g := git.Config{URL: t.Repository, User: c.User, CAFile: t.CAFile, Key: c.SSHKey, KnownHosts: c.KnownHost, Compare: t.Compare}
		if t.Push != "" {
			g.URL = t.Push
		}
		if c.TokenFile != "" {
			g.Credential = secretFile(c.TokenFile)
		}
		if ca := c.SSHCA; ca != nil {
			g.CA = &git.CA{Certificate: ca.Certificate(), Key: secretBytes(ca.Key), Folder: ca.Folder}
		}
		return git.New(g)
	}
	return nil, &sallyport.Error{Op: "choose the forge", Code: sallyport.CodeUnsupported, Subject: t.Kind, Message: "this version has no driver for it"}
}

// loaded says that a file is one that systemd loaded for this unit: root's, with an access list that lets this user read it, which
// shows as a bit for the group. Nobody else can enter the folder.
func loaded(path string, fi os.FileInfo) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	st, ok := fi.Sys().(*syscall.Stat_t)
	return dir != "" && filepath.Dir(path) == filepath.Clean(dir) && ok && st.Uid == 0 && fi.Mode().Perm() == 0o440
}

// secretFile reads a secret of one line each time that it is needed, from a file that nobody else can read.
func secretFile(path string) func(context.Context) (string, error) {
	read := secretBytes(path)
	return func(ctx context.Context) (string, error) {
		b, err := read(ctx)
		if err != nil {
			return "", err
		}
		s := strings.TrimSpace(string(b))
		if s == "" || strings.ContainsAny(s, "\r\n") {
			return "", &sallyport.Error{Op: "read a credential", Code: sallyport.CodeInvalid, Subject: path, Message: "expected one line"}
		}
		return s, nil
	}
}

// secretBytes is secretFile for a whole file.
func secretBytes(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		fail := func(code sallyport.Code, message, hint string, err error) ([]byte, error) {
			return nil, &sallyport.Error{Op: "read a credential", Code: code, Subject: path, Message: message, Hint: hint, Err: err}
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return fail(sallyport.CodeNotFound, "", "", err)
		}
		defer f.Close()
		fi, err := f.Stat()
		switch {
		case err != nil:
			return fail(sallyport.CodeUnavailable, "", "", err)
		case !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 && !loaded(path, fi):
			return fail(sallyport.CodeDenied, "others can read it", "chmod 600 "+path, nil)
		case fi.Size() == 0:
			return fail(sallyport.CodeInvalid, "it is empty", "", nil)
		case fi.Size() > 64<<10:
			return fail(sallyport.CodeInvalid, "expected a secret of at most 64 KiB", "", nil)
		}
		b := make([]byte, fi.Size())
		if _, err := io.ReadFull(f, b); err != nil {
			return fail(sallyport.CodeUnavailable, "", "", err)
		}
		return b, nil
	}
}
