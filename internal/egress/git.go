package egress

import (
	"net/url"
	"strings"
)

// GitFetch says whether a request of git's smart protocol over HTTP reads a repository: the discovery of refs for
// upload-pack, or upload-pack itself. path and query are as they stood in the request. Everything else is a no with
// its Reason: a push, the dumb protocol, LFS.
func GitFetch(method, path, query string) (ok bool, why Reason) {
	canonical, clean := canonicalPath(path)
	switch {
	case !clean:
		return false, ReasonAmbiguousPath
	case pushes(canonical, query):
		return false, ReasonGitPush
	}
	_, why = gitRead(method, canonical, query)
	return why == "", why
}

const (
	gitRefs   = "/info/refs"
	gitUpload = "/git-upload-pack"
	gitPush   = "git-receive-pack"
)

// gitRead is the repository that a fetch reads, as a path without ".git". The query is compared whole: a server and
// this reader could pick different ones of two services.
func gitRead(method, path, query string) (repository string, why Reason) {
	if repository, ok := strings.CutSuffix(path, gitRefs); ok && method == "GET" && repository != "" {
		switch query {
		case "service=git-upload-pack":
			return strings.TrimSuffix(repository, ".git"), ""
		case "":
			return "", ReasonGitDumb
		}
	}
	if repository, ok := strings.CutSuffix(path, gitUpload); ok && method == "POST" && query == "" && repository != "" {
		return strings.TrimSuffix(repository, ".git"), ""
	}
	return "", ReasonGitRead
}

// pushes says that a server may take the request for a push: the service itself, or its discovery. It errs on the
// side of yes, as a query that is not well formed and parameters in a path are read differently by every server.
func pushes(path, query string) bool {
	path = strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(path), "%2f", "/"), "%3b", ";")
	for s := range strings.SplitSeq(path, "/") {
		if name, _, _ := strings.Cut(s, ";"); name == gitPush {
			return true
		}
	}
	if !strings.Contains(path, gitRefs) {
		return false
	}
	plain, err := url.QueryUnescape(query)
	return err != nil || strings.Contains(strings.ToLower(plain), gitPush)
}
