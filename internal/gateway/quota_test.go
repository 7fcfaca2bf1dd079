package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport/internal/egress"
)

// In no span of sixty seconds are more let in than the rate says, and a patient asker is let in.
func TestRateHoldsInEverySpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 20).Draw(t, "rate")
		q := &quota{limits: egress.Limits{Rate: rate}}
		now := time.Unix(1_700_000_000, 0)
		var in []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "asks") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(70*time.Second)).Draw(t, "wait")))
			if q.enter(now) == "" {
				in = append(in, now)
			}
		}
		for i, first := range in {
			n := int64(0)
			for _, other := range in[i:] {
				if other.Sub(first) < time.Minute {
					n++
				}
			}
			if n > rate {
				t.Fatalf("%d in the minute from %v at a rate of %d", n, first, rate)
			}
		}
		if why := q.enter(now.Add(62 * time.Second)); why != "" {
			t.Fatalf("after a minute of silence: %s", why)
		}
	})
}

// Of what is asked for, exactly the limit passes.
func TestTakeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1000).Draw(t, "limit")
		q := &quota{limits: egress.Limits{Up: limit}}
		asked, got := int64(0), int64(0)
		for _, n := range rapid.SliceOf(rapid.IntRange(0, 300)).Draw(t, "asks") {
			asked += int64(n)
			got += int64(q.takeUp(n))
		}
		if got != min(asked, limit) {
			t.Fatalf("%d of %d passed a limit of %d", got, asked, limit)
		}
		if q.takeDown(1<<20) != 1<<20 {
			t.Fatal("the other direction is limited too")
		}
	})
}

func TestLimitsOfHTTPRules(t *testing.T) {
	var up seen
	with := func(l egress.Limits, h http.HandlerFunc) *proxyRig {
		return newProxyRig(t, h, func(r *proxyRig) []egress.Rule {
			rules := allHTTP(r)
			rules[0].Limits = l
			return rules
		})
	}
	for why, l := range map[egress.Reason]egress.Limits{ReasonRequests: {Requests: 2}, ReasonRate: {Rate: 2}} {
		r := with(l, up.handler)
		for i, want := range []int{200, 200, 429, 429} {
			if status, _ := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/"); status != want {
				t.Errorf("%s: request %d answered %d", why, i, status)
			}
		}
		if d := r.last(t, why); d.Count != 2 {
			t.Errorf("%s: recorded %+v", why, d)
		}
	}

	up = seen{}
	r := with(egress.Limits{Up: 1000}, up.handler)
	for _, framing := range []string{"Content-Length: 1500\r\n\r\n" + strings.Repeat("x", 1500), "Transfer-Encoding: chunked\r\n\r\n5dc\r\n" + strings.Repeat("x", 1500) + "\r\n0\r\n\r\n"} {
		if got := r.raw(t, "POST http://"+r.plainHost()+"/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+framing); !strings.HasPrefix(got, "HTTP/1.1 429") {
			t.Errorf("answered %q", got)
		}
	}
	up.mu.Lock()
	sum := 0
	for _, b := range up.body {
		sum += len(b)
	}
	up.mu.Unlock()
	if sum > 1000 {
		t.Errorf("%d bytes left over a limit of 1000", sum)
	}

	r = with(egress.Limits{Down: 100_000}, func(w http.ResponseWriter, q *http.Request) { _, _ = w.Write(make([]byte, 70_000)) })
	if _, body := r.get(t, r.client(t, "http"), "http://"+r.plainHost()+"/"); len(body) != 70_000 {
		t.Errorf("got %d bytes", len(body))
	}
	res, err := r.client(t, "http").Get("http://" + r.plainHost() + "/")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err == nil || len(b) > 30_000 {
		t.Errorf("got %d bytes over the limit, %v", len(b), err)
	}
	r.last(t, ReasonDown)
}

func TestLimitsOfTunnels(t *testing.T) {
	with := func(l egress.Limits) *proxyRig {
		return newProxyRig(t, func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = w.Write(make([]byte, 1<<20))
		}, func(r *proxyRig) []egress.Rule {
			return []egress.Rule{{Host: "plain.example.com", Port: portOf(r.plain), Protocol: egress.TCP, Limits: l}}
		})
	}
	r := with(egress.Limits{Down: 100_000})
	c := r.open(t, r.plainHost())
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, _ := io.ReadAll(c); len(b) > 100_000 {
		t.Errorf("%d bytes came over a limit of 100000", len(b))
	}
	r.last(t, ReasonDown)

	r = with(egress.Limits{Up: 50_000})
	c = r.open(t, r.plainHost())
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
	_, _ = c.Write(make([]byte, 100_000))
	_, _ = io.ReadAll(c)
	r.last(t, ReasonUp)
	for range 100 {
		if r.server.Counters().Requests == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := r.server.Counters().BytesUp; n != 50_000 {
		t.Errorf("%d bytes left under a limit of 50000", n)
	}

	r = with(egress.Limits{Requests: 1})
	r.open(t, r.plainHost())
	if got := r.raw(t, "CONNECT "+r.plainHost()+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 429") {
		t.Errorf("the second connection: %q", got)
	}
}
