package gateway

import (
	"fmt"
	"io"
	"testing"

	"sallyport.dev/sallyport/internal/egress"
)

func TestSOCKSReplies(t *testing.T) {
	r := newProxyRig(t, hello, func(r *proxyRig) []egress.Rule {
		return append(usualRules(r), egress.Rule{Host: "gone.example.com", Port: 22, Protocol: egress.TCP},
			egress.Rule{Host: "www.example.com", Port: 1, Protocol: egress.TCP}, egress.Rule{Host: "127.0.0.1", Port: portOf(r.plain), Protocol: egress.TCP})
	})
	port := func(p uint16) string { return string([]byte{byte(p >> 8), byte(p)}) }
	name := func(n string, p uint16) string { return "\x05\x01\x00\x03" + string(rune(len(n))) + n + port(p) }
	for what, c := range map[string]struct {
		bytes string
		reply byte
		why   egress.Reason
	}{
		"tls host":          {name("example.com", portOf(r.tls)), 0, ""},
		"http host":         {name("plain.example.com", portOf(r.plain)), 0, ""},
		"listed address":    {"\x05\x01\x00\x01\x7f\x00\x00\x01" + port(portOf(r.plain)), 0, ""},
		"mapped":            {"\x05\x01\x00\x04" + string(make([]byte, 10)) + "\xff\xff\x7f\x00\x00\x01" + port(portOf(r.plain)), 0, ""},
		"unlisted address":  {"\x05\x01\x00\x01\x0a\x00\x00\x01" + port(80), 2, egress.ReasonHost},
		"address of a name": {"\x05\x01\x00\x01\x7f\x00\x00\x01" + port(portOf(r.tls)), 2, egress.ReasonPort},
		"unlisted":          {name("evil.com", 443), 2, egress.ReasonHost},
		"two meanings":      {name("0x7f.1", 443), 1, egress.ReasonMalformedName},
		"bind":              {"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", 7, egress.ReasonMalformedName},
		"udp":               {"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", 7, egress.ReasonMalformedName},
		"no such name":      {name("gone.example.com", 22), 4, ""},
		"nobody listens":    {name("www.example.com", 1), 5, ""},
	} {
		conn := r.dial(t)
		_, _ = io.WriteString(conn, "\x05\x02\x02\x00")
		_, _ = io.WriteString(conn, c.bytes)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 5 || answer[1] != 0 || answer[2] != 5 || answer[3] != c.reply {
			t.Errorf("%s: answered %x, %v", what, answer, err)
		}
		if c.why != "" {
			r.last(t, c.why)
		}
		_ = conn.Close()
	}
	conn := r.dial(t)
	_, _ = io.WriteString(conn, "\x05\x01\x02") // a password only
	if b, _ := io.ReadAll(conn); fmt.Sprintf("%x", b) != "05ff" {
		t.Errorf("answered %x", b)
	}
}
