package egress

import (
	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

// host is Host for what the test itself writes.
func host(t rapid.TB, s string) Name {
	t.Helper()
	n, err := Host(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return n
}

// rules reads the entries of an `egress:` list as a person would write it.
func rules(t rapid.TB, text string) []Rule {
	t.Helper()
	out, err := readYAML(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func readYAML(text string) ([]Rule, error) {
	var entries []any
	if err := yaml.Unmarshal([]byte(text), &entries); err != nil {
		return nil, err
	}
	return ParseAll(entries)
}

// get is a GET over https on 443.
func get(t rapid.TB, name, path string) Request {
	t.Helper()
	return Request{Name: host(t, name), Port: 443, Protocol: HTTPS, Method: "GET", Path: path}
}
