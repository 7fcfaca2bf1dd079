package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// created begins an Attempt that nobody runs.
func created(work string) (journal.Record, error) {
	a, err := id.New(sallyport.AttemptPrefix)
	return journal.Record{Type: lifecycle.AttemptCreated, Attempt: sallyport.AttemptID(a), Data: lifecycle.Created{
		WorkOrder: sallyport.WorkOrderID(work), Name: "load", Number: 1, Manifest: sallyport.Sum([]byte("manifest")), Repository: "/srv/code",
		Base: sallyport.ObjectID(strings.Repeat("a", 40)), StartTree: sallyport.ObjectID(strings.Repeat("b", 40)),
		Submitter: "load <load@example.invalid>", Separation: "none",
	}}, err
}

// journal: appends per second, each by a writer that waits for it and drives an Attempt of its own, against a file that
// is appended to and synced by one. They take turns; medians of three.
func (l *load) journal(ctx context.Context) error {
	const rounds = 3
	each := 2 * time.Second
	if l.brief {
		each /= 10
	}
	raw, one, many := make([]float64, rounds), make([]float64, rounds), make([]float64, rounds)
	for i := range rounds {
		var err error
		if raw[i], err = l.rawSync(ctx, each); err != nil {
			return err
		}
		if one[i], err = l.appends(ctx, fmt.Sprintf("one-%d", i), 1, each); err != nil {
			return err
		}
		if many[i], err = l.appends(ctx, fmt.Sprintf("many-%d", i), l.writers, each); err != nil {
			return err
		}
	}
	r := median(raw)
	fmt.Printf("  raw write + fdatasync       %8.0f /s\n", r)
	fmt.Printf("  journal, 1 writer           %8.0f appends/s  %.2fx of raw\n", median(one), median(one)/r)
	fmt.Printf("  journal, %d writers         %8.0f appends/s  %.2fx of raw (aim 10x)\n", l.writers, median(many), median(many)/r)
	return nil
}

func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}

// rawSync appends as much as an event of the journal takes.
func (l *load) rawSync(ctx context.Context, d time.Duration) (float64, error) {
	f, err := os.CreateTemp(l.dir, "raw-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	record := make([]byte, 700)
	began, n := time.Now(), 0
	for ; time.Since(began) < d && ctx.Err() == nil; n++ {
		if _, err := f.Write(record); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), ctx.Err()
}

func (l *load) appends(ctx context.Context, name string, writers int, d time.Duration) (float64, error) {
	db, err := sqlite.Open(filepath.Join(l.dir, "journals", name, "journal.db"), sqlite.Options{})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	h, err := journal.SelfHolder()
	if err != nil {
		return 0, err
	}
	leases := make([]journal.Lease, writers)
	for i := range leases {
		rec, err := created("wo_load")
		if err != nil {
			return 0, err
		}
		if _, err := db.Append(ctx, nil, rec); err != nil {
			return 0, err
		}
		if leases[i], err = db.Acquire(ctx, rec.Attempt, h, time.Hour, nil); err != nil {
			return 0, err
		}
	}
	var n atomic.Int64
	errs := make(chan error, writers)
	began := time.Now()
	var wg sync.WaitGroup
	for _, lease := range leases {
		wg.Go(func() {
			for i := 0; time.Since(began) < d; i++ {
				next := []sallyport.AttemptState{sallyport.AttemptPreparing, sallyport.AttemptRunning}[i%2]
				if _, err := db.Append(ctx, &lease, journal.Record{Type: lifecycle.AttemptStage, Attempt: lease.Attempt, Data: lifecycle.Stage{State: next, Seconds: 1}}); err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began).Seconds()
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	return float64(n.Load()) / took, db.Check(ctx)
}
