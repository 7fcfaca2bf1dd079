package toolchain

import (
	"maps"
	"testing"
)

// Online takes away what keeps a program from asking, and nothing that somebody set otherwise.
func TestOnline(t *testing.T) {
	all := map[string]string{"PATH": "/bin"}
	for _, c := range caches {
		maps.Copy(all, c.offline)
	}
	got := Online(all)
	for name := range networkSwitches {
		if _, ok := all[name]; !ok {
			t.Errorf("%s is no switch of any cache", name)
		}
		if v, ok := got[name]; ok {
			t.Errorf("%s=%s is left", name, v)
		}
	}
	if got["PATH"] != "/bin" || got["npm_config_audit"] != "false" || all["GOPROXY"] != "off" {
		t.Errorf("%v", got)
	}
	if got := Online(map[string]string{"GOPROXY": "http://proxy.test"}); got["GOPROXY"] != "http://proxy.test" {
		t.Errorf("%v", got)
	}
}
