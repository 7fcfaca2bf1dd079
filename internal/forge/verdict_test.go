package forge

import (
	"os"
	"strings"
	"testing"
)

// git-push(1): "If --porcelain is used, then each line of the output is of the form <flag> \t <from>:<to> \t <summary> (<reason>)".
func TestVerdict(t *testing.T) {
	const id, ref = "0123456789012345678901234567890123456789", "refs/heads/a"
	for _, c := range []struct {
		out  string
		flag byte
		why  string
	}{
		{"To x\n*\t" + id + ":" + ref + "\t[new branch]\nDone\n", '*', "[new branch]"},
		{"To x\n \t" + id + ":" + ref + "\t1..2\nDone\n", ' ', "1..2"},
		{"=\t" + id + ":" + ref + "\t[up to date]\n", '=', "[up to date]"},
		{"!\t" + id + ":" + ref + "\t[rejected] (stale info)\n", '!', "[rejected] (stale info)"},
		{"!\t" + id + ":" + ref + "b\t[rejected]\n", 0, ""},
		{"!\t" + id + ":refs/heads/x\t[rejected]\n", 0, ""},
		{"?\t" + id + ":" + ref + "\t[new branch]\n", 0, ""},
		{"* " + id + ":" + ref + " [new branch]\n", 0, ""},
		{"", 0, ""},
		{"fatal: *\n", 0, ""},
	} {
		if flag, why := verdict(c.out, ref); flag != c.flag || why != c.why {
			t.Errorf("%q: %q %q", c.out, flag, why)
		}
	}
}

func TestSSHCertificateCommandIsQuoted(t *testing.T) {
	got := SSHCertificateCommand("/k", `/a "certi 50%' cate`, "/hosts")
	for _, want := range []string{`'CertificateFile="/a \"certi 50%%'\'' cate"'`, "'-i' '/k'", "'-F' '/dev/null'", `'UserKnownHostsFile="/hosts"'`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(SSHCommand("/k", "/hosts"), "CertificateFile") {
		t.Error("a key alone has a certificate")
	}
}

func TestSSHCommandIsQuoted(t *testing.T) {
	got := SSHCommand("/k e'y", `/hosts "50%"`)
	for _, want := range []string{`'-i' '/k e'\''y'`, `'UserKnownHostsFile="/hosts \"50%%\""'`, "'StrictHostKeyChecking=yes'", "'IdentityAgent=none'", "'-F' '/dev/null'"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// With a file of authorities git believes nobody beside them: curl looks into the system's folder, too, where it has one built in.
func TestOnlyTheFileIsBelieved(t *testing.T) {
	for file, want := range map[string]bool{"": false, "/company.pem": true} {
		env := strings.Join(git{remote: Remote{CAFile: file}}.environ("https"), "\n") + "\n"
		if have := strings.Contains(env, "=http.sslCAPath\n") && strings.Contains(env, "="+nobody+"\n"); have != want {
			t.Errorf("with %q: %v", file, have)
		}
	}
	entries, err := os.ReadDir(nobody)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // numbers: none has the name of a hash, and none is a certificate
		if strings.Contains(e.Name(), ".") {
			t.Errorf("%s", e.Name())
		}
	}
}
