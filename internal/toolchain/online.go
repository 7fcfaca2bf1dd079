package toolchain

import "maps"

// networkSwitches are what caches say of being offline that keeps a program from asking at all; the others save a
// question that nobody needs.
var networkSwitches = map[string]bool{"GOPROXY": true, "npm_config_offline": true, "YARN_ENABLE_NETWORK": true, "PIP_NO_INDEX": true, "UV_OFFLINE": true,
	"CARGO_NET_OFFLINE": true, "MAVEN_ARGS": true, "MAVEN_CONFIG": true, "COURSIER_MODE": true, "COMPOSER_DISABLE_NETWORK": true}

// Online is env without the offline switches that Resolve set; what somebody set otherwise stays.
func Online(env map[string]string) map[string]string {
	out := maps.Clone(env)
	for _, c := range caches {
		for k, v := range c.offline {
			if networkSwitches[k] && out[k] == v {
				delete(out, k)
			}
		}
	}
	return out
}
