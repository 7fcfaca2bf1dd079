package sqlite

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
)

func BenchmarkAppend1(b *testing.B)  { benchmarkAppend(b, 1) }
func BenchmarkAppend16(b *testing.B) { benchmarkAppend(b, 16) }

// benchmarkAppend: each goroutine drives an Attempt of its own and waits for each append.
func benchmarkAppend(b *testing.B, workers int) {
	db := openAt(b, filepath.Join(b.TempDir(), "journal.db"), Options{})
	h, err := journal.SelfHolder()
	if err != nil {
		b.Fatal(err)
	}
	var leases []journal.Lease
	for range workers {
		att := sallyport.AttemptID(journaltest.NewID(b, sallyport.AttemptPrefix))
		if _, err := db.Append(b.Context(), nil, journaltest.Created(att, "wo_bench")); err != nil {
			b.Fatal(err)
		}
		l, err := db.Acquire(b.Context(), att, h, time.Hour, nil)
		if err != nil {
			b.Fatal(err)
		}
		leases = append(leases, l)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, l := range leases {
		n := b.N / workers
		if i < b.N%workers {
			n++
		}
		wg.Go(func() {
			for range n {
				if _, err := db.Append(b.Context(), &l, note(l.Attempt, "compiling")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkCheck walks and replays a log of 2,000 events.
func BenchmarkCheck(b *testing.B) {
	db := openAt(b, filepath.Join(b.TempDir(), "journal.db"), Options{})
	for range 500 {
		att := sallyport.AttemptID(journaltest.NewID(b, sallyport.AttemptPrefix))
		if _, err := db.Append(b.Context(), nil, journaltest.Created(att, "wo_bench"), checkpoint("a"), checkpoint("b"), checkpoint("c")); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := db.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
