package toolchain

import (
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestDeps(t *testing.T) {
	w := newWorld(t)
	w.program(w.repo+"/web/node_modules/jest/bin.js", "#!/bin/sh\n")
	w.link(w.repo+"/web/node_modules/.bin/jest", "../jest/bin.js")
	w.dir(w.repo + "/shared/modules")
	w.link(w.repo+"/node_modules", "shared/modules")
	req := w.request(w.repo + "/web/node_modules/.bin")
	req.Checks = []string{"jest"}
	e := w.refuse(req, sallyport.CodeInvalid)
	if !strings.Contains(e.Hint, "deps: [web/node_modules]") {
		t.Errorf("hint: %q", e.Hint)
	}
	req.Deps = []string{"web/node_modules", "./node_modules/", "missing"}
	res := w.resolve(req)
	wantMount(t, res, w.repo+"/web/node_modules", "cow", "deps web/node_modules")
	wantMount(t, res, w.repo+"/shared/modules", "cow", "deps node_modules")
	if !slices.Contains(res.Links, Link{w.repo + "/node_modules", "shared/modules"}) {
		t.Errorf("links: %v", res.Links)
	}
	if res.Path[0] != w.repo+"/web/node_modules/.bin" {
		t.Errorf("PATH: %v", res.Path)
	}
	if !strings.Contains(strings.Join(res.Notices, "\n"), "missing does not exist") {
		t.Errorf("notices: %v", res.Notices)
	}
}

func TestDepsStayInside(t *testing.T) {
	w := newWorld(t)
	outside := w.dir(w.base + "/outside/x")
	w.link(w.repo+"/out", "../../outside")
	w.link(w.repo+"/abs", outside)
	w.link(w.repo+"/self", ".")
	w.link(w.repo+"/gitlink", ".git")
	w.dir(w.repo + "/.git/objects")
	w.file(w.repo+"/.env", "TOKEN=x")
	for dep, code := range map[string]sallyport.Code{
		"": sallyport.CodeInvalid, ".": sallyport.CodeInvalid, "..": sallyport.CodeInvalid, "a/../..": sallyport.CodeInvalid, "/etc": sallyport.CodeInvalid,
		"out": sallyport.CodeDenied, "out/x": sallyport.CodeDenied, "abs": sallyport.CodeDenied, "self": sallyport.CodeDenied, "gitlink": sallyport.CodeDenied,
		".git": sallyport.CodeDenied, ".GIT/objects": sallyport.CodeDenied, "self/.git/objects": sallyport.CodeDenied, ".env": sallyport.CodeInvalid, `a\b`: sallyport.CodeInvalid,
	} {
		t.Run(dep, func(t *testing.T) {
			req := w.request()
			req.Deps = []string{dep}
			w.refuse(req, code)
		})
	}
}
