package spend

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNoOrderGoesOverTheLimit: parallel calls, retries, cuts and crashes in any order. What is on record is what a journal
// holds: a reservation before the request leaves, a settlement after it. A crash forgets the ledger and all calls.
func TestNoOrderGoesOverTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{MicroUSD: rapid.Int64Range(0, 1000).Draw(t, "usd"), Tokens: rapid.Int64Range(0, 1000).Draw(t, "tokens")}
		type call struct{ reserved, used Amount }
		var settled Amount // on record
		var open []Amount  // on record, without a settlement
		var flying []call  // of this process
		var truth Amount   // what the API charges for
		ledger := NewLedger(limit, Amount{})
		amount := func(name string, most int64) Amount {
			return Amount{rapid.Int64Range(0, most).Draw(t, name+"usd"), rapid.Int64Range(0, most).Draw(t, name+"tokens")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				a := amount("reserve ", 400)
				verdict, again := ledger.Reserve(a)
				if (verdict == Wait) != (again != nil) {
					t.Fatal("only who waits is called")
				}
				if verdict != Held {
					return
				}
				open = append(open, a)
				used := Amount{rapid.Int64Range(0, a.MicroUSD).Draw(t, "usd"), rapid.Int64Range(0, a.Tokens).Draw(t, "tokens")}
				truth = truth.Add(used)
				flying = append(flying, call{a, used})
			},
			"settle": func(t *rapid.T) {
				if len(flying) == 0 {
					t.Skip("nothing flies")
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				c := flying[i]
				flying = append(flying[:i:i], flying[i+1:]...)
				if rapid.Bool().Draw(t, "cut") {
					c.used = c.reserved // nothing says it
				}
				if ledger.Settle(c.reserved, c.used) {
					t.Fatal("within its reservation, and yet above")
				}
				settled = settled.Add(c.used)
				for j, a := range open {
					if a == c.reserved {
						open = append(open[:j:j], open[j+1:]...)
						break
					}
				}
			},
			"crash": func(*rapid.T) {
				before := settled
				for _, a := range open {
					before = before.Add(a)
				}
				ledger, flying = NewLedger(limit, before), nil
			},
			"": func(t *rapid.T) {
				all := settled
				for _, a := range open {
					all = all.Add(a)
				}
				if !limit.holds(all) || !limit.holds(truth) {
					t.Fatalf("limit %+v, on record %+v, charged %+v", limit, all, truth)
				}
				spent, held := ledger.Spent()
				if !limit.holds(spent.Add(held)) {
					t.Fatalf("limit %+v, ledger %+v and %+v", limit, spent, held)
				}
			},
		})
	})
}

func TestAboveItsReservation(t *testing.T) {
	l := NewLedger(Limit{MicroUSD: 100}, Amount{MicroUSD: 10})
	if v, _ := l.Reserve(Amount{MicroUSD: 50}); v != Held {
		t.Fatal(v)
	}
	v, again := l.Reserve(Amount{MicroUSD: 41})
	if v != Wait {
		t.Fatal(v)
	}
	if v, _ := l.Reserve(Amount{MicroUSD: 91}); v != Over {
		t.Fatal(v)
	}
	if !l.Settle(Amount{MicroUSD: 50}, Amount{MicroUSD: 60}) {
		t.Error("not told")
	}
	select {
	case <-again:
	default:
		t.Error("who waits is not called")
	}
	if v, _ := l.Reserve(Amount{}); v != Closed {
		t.Errorf("%v, and nothing is foreseen any more", v)
	}
	if spent, held := l.Spent(); spent.MicroUSD != 70 || held != (Amount{}) {
		t.Errorf("%+v, %+v", spent, held)
	}
}

func TestCostIsRoundedUpAndNeverWraps(t *testing.T) {
	for _, c := range []struct{ tokens, price, want int64 }{
		{1, 1, 1}, {0, 5, 0}, {-1, 5, 0}, {1_000_000, 5_000_000, 5_000_000}, {3, 2_500_000, 8}, {1 << 62, 1 << 62, 1<<63 - 1},
	} {
		if got := cost(c.tokens, c.price); got != c.want {
			t.Errorf("%d at %d: %d, expected %d", c.tokens, c.price, got, c.want)
		}
	}
	if a := (Amount{1<<63 - 1, 1}).Add(Amount{1, 1}); a != (Amount{1<<63 - 1, 2}) {
		t.Errorf("%+v", a)
	}
}
