package control

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/gateway"
)

// Whatever a program reads, it finds the Attempt's authority, and beside it the host's where it reads nothing else.
func TestTrusting(t *testing.T) {
	const seed = "a seed of one Attempt"
	dir := t.TempDir()
	without, env, err := trusting(seed, []string{dir})
	if err != nil || env["JAVA_TOOL_OPTIONS"] != "" || len(without) != 2 {
		t.Fatalf("without java: %d files, %v, %v", len(without), env, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "java"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	files, env, err := trusting(seed, []string{"/nowhere", dir})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string][]byte{}
	for _, f := range files {
		named["/run/sallyport/files/"+f.Name] = f.Data
	}
	a, _ := gateway.NewAuthority([]byte(seed), time.Now())
	ours := certificates(a.PEM())[0]
	same := func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, ours.RawSubject) && bytes.Equal(c.RawSubjectPublicKeyInfo, ours.RawSubjectPublicKeyInfo)
	}
	for name, value := range env {
		if name == "JAVA_TOOL_OPTIONS" {
			continue
		}
		found := 0
		for _, c := range certificates(named[value]) {
			if same(c) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s names %s, in which the authority stands %d times", name, value, found)
		}
	}
	if !strings.Contains(env["JAVA_TOOL_OPTIONS"], "/run/sallyport/files/"+storeFile) {
		t.Errorf("Java is told %q", env["JAVA_TOOL_OPTIONS"])
	}
	all, err := pkcs12.DecodeTrustStore(named["/run/sallyport/files/"+storeFile], storePassword)
	if err != nil || len(all) != len(certificates(named[env["SSL_CERT_FILE"]])) || !same(all[len(all)-1]) {
		t.Errorf("Java's store holds %d, %v", len(all), err)
	}
	for name, data := range named {
		if bytes.Contains(data, []byte("PRIVATE")) || bytes.Contains(data, []byte(seed)) {
			t.Errorf("%s holds a key", name)
		}
	}
}

// TestAuthorityWhereSomethingIsRead: a rule that would pass a host unread does not, where the host is a forge or may be
// metered.
func TestAuthorityWhereSomethingIsRead(t *testing.T) {
	all := func(host string, protocol sallyport.Protocol) []sallyport.EgressRule {
		r := sallyport.EgressRule{Host: host, Port: 443, Protocol: protocol}
		if protocol == egress.HTTPS {
			r.Methods, r.Paths, r.OwnAuth = []string{"*"}, []string{"/**"}, true
		}
		return []sallyport.EgressRule{r}
	}
	app := []sallyport.Credential{{Name: "app", Source: sallyport.CredentialSource{GitHubApp: &sallyport.GitHubApp{}}, Hosts: []string{"forge.corp.example"}}}
	if own := (sallyport.Manifest{Credentials: app}); !readsTLS(own, all("forge.corp.example", egress.HTTPS)) || readsTLS(own, all("www.corp.example", egress.HTTPS)) {
		t.Error("a forge of one's own is none")
	}
	for _, c := range []struct {
		rules []sallyport.EgressRule
		spend *sallyport.SpendLimit
		want  bool
	}{
		{all("www.example.com", egress.HTTPS), nil, false},
		{all("github.com", egress.HTTPS), nil, true},
		{all("*.github.com", egress.HTTPS), nil, true},
		{all("github.com", egress.TCP), nil, false}, // it is refused when it is asked for
		{all("*.anthropic.com", egress.HTTPS), &sallyport.SpendLimit{Tokens: 1}, true},
		{all("*.anthropic.com", egress.TCP), &sallyport.SpendLimit{Tokens: 1}, false},
	} {
		m := sallyport.Manifest{Egress: c.rules, Spend: c.spend}
		if opensTLS(m) != c.want {
			t.Errorf("%+v: %v", c.rules, !c.want)
		}
		seed := ""
		if c.want {
			seed = "a seed of one Attempt"
		}
		config, err := proxyConfig(m, m.Egress, seed)
		if err == nil {
			err = config.Check()
		}
		if err != nil {
			t.Errorf("%+v: %v", c.rules, err)
		}
	}
}
