package sim

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

var (
	number = flag.Int("n", 100_000, "how many histories; one is shown step by step")
	seed   = flag.Uint64("seed", 1, "the first one's seed")
	update = flag.Bool("update", false, "look anew for the histories in testdata, which a changed order of choices makes others")
)

// TestHistories lives so many histories, and shows the first failing one as short as it can be made.
func TestHistories(t *testing.T) {
	n := *number
	if testing.Short() {
		n = min(n, 2000)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // many small lives, and nothing that lasts
	began := time.Now()
	var next, steps, events atomic.Int64
	var mu sync.Mutex
	ends := map[sallyport.AttemptState]int{}
	worst := map[string]uint64{} // by law: the least seed that fails
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				s := *seed + uint64(i)
				r := Run(fresh(s), Options{})
				steps.Add(int64(r.Steps))
				events.Add(int64(len(r.Events)))
				mu.Lock()
				for k, v := range r.Ends {
					ends[k] += v
				}
				if was, known := worst[r.Law]; r.Law != "" && (!known || s < was) {
					worst[r.Law] = s
				}
				mu.Unlock()
				if i > 0 && i%1_000_000 == 0 {
					t.Logf("%d histories, %v", i, time.Since(began).Round(time.Second))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d histories of %d steps and %d events in %v; attempts ended %v", n, steps.Load(), events.Load(), time.Since(began).Round(100*time.Millisecond), ends)
	if n == 1 {
		t.Log(strings.Join(Run(fresh(*seed), Options{Trace: true}).Trace, "\n"))
	}
	for _, law := range slices.Sorted(maps.Keys(worst)) {
		s := worst[law]
		short := Shrink(Run(fresh(s), Options{}).Choices, Options{}, law)
		t.Errorf("seed %d (make sim SEED=%d N=1) is against the law\n\t%s\nas is this shorter one, which testdata can keep:\n%s", s, s, law, show(short, Options{}))
	}
}

// show is a history for people.
func show(choices []byte, opt Options) string {
	opt.Trace = true
	r := Run(&chooser{made: choices}, opt)
	return fmt.Sprintf("\t{\"choices\": %q}\n\t%s\n\t%s", hex.EncodeToString(choices), r.What, strings.Join(r.Trace, "\n\t"))
}

// kept is a history that once failed, by a rule as it was then.
type kept struct {
	What    string `json:"what"`
	Law     string `json:"law"`    // what its sentence begins with
	Broken  Broken `json:"broken"` // the rule as it was
	Choices string `json:"choices"`
}

// TestKept replays what once failed: with the rule as it was it still does, and as it is now it does not.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var k kept
			if err := json.Unmarshal(b, &k); err != nil {
				t.Fatal(err)
			}
			if *update {
				k.search(t, f)
			}
			choices, err := hex.DecodeString(k.Choices)
			if err != nil {
				t.Fatal(err)
			}
			if r := Run(&chooser{made: choices}, Options{Broken: k.Broken}); !strings.HasPrefix(r.Law, k.Law) || r.Law == "" {
				t.Errorf("it does not show any more what it was kept for (-update looks for another one): %q", r.Law)
			}
			if r := Run(&chooser{made: choices}, Options{}); r.Law != "" {
				t.Errorf("%s: %s\n%s", k.What, r.Law, show(choices, Options{}))
			}
		})
	}
}

// search finds the first seed that shows it, and keeps that as short as it can be made.
func (k *kept) search(t *testing.T, file string) {
	opt := Options{Broken: k.Broken}
	for s := range uint64(200_000) {
		r := Run(fresh(s), opt)
		if r.Law == "" || !strings.HasPrefix(r.Law, k.Law) {
			continue
		}
		k.Choices = hex.EncodeToString(Shrink(r.Choices, opt, r.Law))
		b, err := json.MarshalIndent(k, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no seed shows it")
}

// TestSameSeedSameHistory: nothing but the seed goes into a history.
func TestSameSeedSameHistory(t *testing.T) {
	for s := range uint64(200) {
		one, two := Run(fresh(s), Options{Trace: true}), Run(fresh(s), Options{Trace: true})
		if !slices.Equal(one.Trace, two.Trace) || !slices.Equal(one.Choices, two.Choices) {
			t.Fatalf("seed %d lived twice and was not the same", s)
		}
		again := Run(&chooser{made: one.Choices}, Options{Trace: true})
		if !slices.Equal(one.Trace, again.Trace) {
			t.Fatalf("seed %d replayed from its choices is not the same", s)
		}
	}
}
