package forge

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"sallyport.dev/sallyport"
)

// The services of git's protocol: for reading and for writing.
const (
	upload  = "git-upload-pack"
	receive = "git-receive-pack"
)

// unreached tells why git failed before it changed anything. Its words differ by version and helper, so a server that
// speaks HTTP is asked the first question of the protocol by us, and its status counts.
func (g git) unreached(ctx context.Context, s said, service string) error {
	if s.exit < 0 {
		return g.fail(sallyport.CodeUnavailable, "it was interrupted", "", s.err)
	}
	switch {
	case strings.HasPrefix(g.remote.URL, "http"):
		return g.askAgain(ctx, s, service)
	case g.remote.SSH != "":
		return g.fail(ofSSH(s.errs), g.words(s), "", nil)
	}
	return g.fail(sallyport.CodeNotFound, g.words(s), "", nil)
}

// ofSSH knows what OpenSSH says in LC_ALL=C where it matters. Anything else may be of the moment.
func ofSSH(errs string) sallyport.Code {
	for words, code := range map[string]sallyport.Code{
		"Permission denied":             sallyport.CodeDenied,
		"Host key verification failed":  sallyport.CodeDenied,
		"not authorized":                sallyport.CodeDenied,
		"does not appear to be a git":   sallyport.CodeNotFound,
		"Could not resolve hostname":    sallyport.CodeUnavailable,
		"Repository not found":          sallyport.CodeNotFound,
		"Cannot find repository":        sallyport.CodeNotFound,
		"project you were looking for ": sallyport.CodeNotFound,
	} {
		if strings.Contains(errs, words) {
			return code
		}
	}
	return sallyport.CodeUnavailable
}

func (g git) askAgain(ctx context.Context, s said, service string) error {
	client, err := NewClient(g.remote.CAFile)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	name, value, _ := strings.Cut(g.remote.Header, ":")
	header := http.Header{}
	if name != "" {
		header.Set(name, strings.TrimSpace(value))
	}
	rest := REST{Base: g.remote.URL, Client: client, Accept: "*/*"}
	_, err = rest.Do(ctx, Request{
		Op: g.op, Subject: g.remote.subject(), Method: http.MethodGet, Path: "/info/refs?service=" + service,
		Header: header, Secrets: g.remote.secrets(),
	})
	if err == nil {
		return g.fail(sallyport.CodeUnavailable, g.words(s), "", nil)
	}
	var e *sallyport.Error
	if errors.As(err, &e) && e.Message == "" && e.Code == sallyport.CodeDenied {
		e.Message = "the credential is not good for this"
	}
	return err
}
