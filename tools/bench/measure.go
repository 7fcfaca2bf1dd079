package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// contender is one side of a comparison. once returns how long what is compared took; preparing and
// cleaning up are its own affair and not in it.
type contender struct {
	name   string
	once   func(ctx context.Context) (time.Duration, error)
	rounds int // at most; 0: all
}

// times are one contender's measurements.
type times []time.Duration

func (t times) sorted() times {
	s := slices.Clone(t)
	slices.Sort(s)
	return s
}

// median of an even number is the mean of the two in the middle; of none it is 0.
func (t times) median() time.Duration {
	s := t.sorted()
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

func (t times) String() string {
	if len(t) == 0 {
		return "no measurement"
	}
	s := t.sorted()
	return fmt.Sprintf("%8s %8s %8s  n=%d", ms(s[0]), ms(t.median()), ms(s[len(s)-1]), len(s))
}

func ms(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	if d < time.Millisecond {
		return fmt.Sprintf("%dµs", d.Microseconds())
	}
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
}

// enough is how many rounds are had whatever the time they take.
const enough = 3

// race has the contenders take turns: once each unmeasured, then rounds times, or fewer (but enough) where
// budget is used up before.
func race(ctx context.Context, rounds int, budget time.Duration, cs ...contender) (map[string]times, error) {
	all := map[string]times{}
	began := time.Now()
	for round := -1; round < rounds; round++ {
		if round >= enough && time.Since(began) > budget {
			break
		}
		for _, c := range cs {
			if c.rounds > 0 && (round < 0 || round >= c.rounds) {
				continue // dear: neither warmed up nor measured often
			}
			d, err := c.once(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= 0 {
				all[c.name] = append(all[c.name], d)
			}
		}
	}
	return all, nil
}

func heading(title string) {
	fmt.Printf("\n%s\n  %-58s %8s %8s %8s\n", title, "", "min", "median", "max")
}

func show(all map[string]times, cs ...contender) {
	for _, c := range cs {
		fmt.Printf("  %-58s %s\n", c.name, all[c.name])
	}
}

// ratio prints the ratio of two medians and how it stands to the aim: at most.
func ratio(what string, a, b times, aim float64) {
	r := float64(a.median()) / float64(b.median())
	fmt.Printf("  -> %-66s %6.3fx  aim <= %gx  %s\n", what, r, aim, met(r <= aim))
}

// absolute prints a median and how it stands to the aim: at most.
func absolute(what string, t times, aim time.Duration) {
	fmt.Printf("  -> %-66s %6s  aim <= %s  %s\n", what, ms(t.median()), aim, met(t.median() <= aim))
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "NOT MET"
}
