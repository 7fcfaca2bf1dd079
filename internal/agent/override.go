package agent

import (
	"net/url"
	"strings"

	"sallyport.dev/sallyport"
)

// Override replaces the upstream by what the operator's environment says (ANTHROPIC_BASE_URL for claude-code,
// OPENAI_BASE_URL for codex), read through getenv (os.Getenv) on the trusted side: self-hosted endpoints and
// tests. Unset: p unchanged. The value is https://host[:port], or http:// to loopback, with the API's own
// path after it or none; anything else is CodeInvalid. The sandbox never sees the value.
func Override(p sallyport.Agent, getenv func(string) string) (sallyport.Agent, error) {
	if p.Endpoint == nil {
		return p, nil
	}
	data, err := find(p.Name)
	if err != nil {
		return p, err
	}
	value := getenv(data.UpstreamEnv)
	if value == "" {
		return p, nil
	}
	upstream, ok := bareUpstream(value, data.UpstreamPath)
	if !ok {
		return p, &sallyport.Error{Op: "choose the model endpoint", Code: sallyport.CodeInvalid, Subject: data.UpstreamEnv,
			Message: "expected https://host[:port]" + data.UpstreamPath + " and nothing more", Hint: "correct or unset " + data.UpstreamEnv}
	}
	e := *p.Endpoint
	e.Upstream = upstream
	p.Endpoint = &e
	return p, nil
}

// bareUpstream leaves scheme://host[:port]; the value may hold a password, so errors never repeat it.
func bareUpstream(value, path string) (string, bool) {
	value = strings.TrimSuffix(strings.TrimSuffix(value, "/"), path)
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || value != u.Scheme+"://"+u.Host || u.Scheme != "https" && u.Scheme != "http" {
		return "", false
	}
	return value, true
}
