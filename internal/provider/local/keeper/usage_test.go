package keeper

import "testing"

// What no count can find ends the command only where the file system is nearly full and got so by more than
// the limit meanwhile.
func TestCrowds(t *testing.T) {
	const g = int64(1 << 30)
	for _, c := range []struct {
		name        string
		before, now space
		limit       int64
		want        bool
	}{
		{"nothing happened", space{100 * g, 50 * g}, space{100 * g, 50 * g}, g, false},
		{"much was written, much is free", space{100 * g, 90 * g}, space{100 * g, 20 * g}, g, false},
		{"nearly full, by this much", space{100 * g, 50 * g}, space{100 * g, g}, g, true},
		{"nearly full, but not by more than the limit", space{100 * g, 2 * g}, space{100 * g, g + g/2}, g, false},
		{"nearly full before", space{100 * g, g}, space{100 * g, g}, g, false},
		{"a small one, nearly full", space{10 * g, 8 * g}, space{10 * g, g / 4}, g, true},
		{"a small one, room left", space{10 * g, 8 * g}, space{10 * g, g}, g, false},
		{"size unknown", space{}, space{}, g, false},
		{"size unknown afterwards", space{100 * g, 50 * g}, space{}, g, false},
	} {
		if got := crowds(c.before, c.now, c.limit); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Only where a disk has as much free as when its use was counted may that count stand.
func TestSteady(t *testing.T) {
	const g, m = int64(1 << 30), int64(1 << 20)
	for _, c := range []struct {
		name      string
		then, now space
		want      bool
	}{
		{"nothing happened", space{100 * g, 50 * g}, space{100 * g, 50 * g}, true},
		{"a little was written", space{100 * g, 50 * g}, space{100 * g, 50*g - m/2}, true},
		{"much was written", space{100 * g, 50 * g}, space{100 * g, 50*g - 2*m}, false},
		{"something was removed", space{100 * g, 50 * g}, space{100 * g, 51 * g}, true},
		{"never counted", space{}, space{100 * g, 50 * g}, false},
		{"size unknown", space{}, space{}, false},
		{"another disk", space{100 * g, 50 * g}, space{200 * g, 50 * g}, false},
	} {
		if got := steady(c.then, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
