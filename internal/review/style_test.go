package review

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var variable = regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]{3,6});`)

// colours are the variables of the light page and of the dark one.
func colours(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	before, after, ok := strings.Cut(pageHTML, "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("the page has no dark form")
	}
	read := func(s string) map[string]string {
		out := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(s, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	return read(before), read(after)
}

// luminance is WCAG's relative luminance of an RGB colour in hexadecimal.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestContrast: every text on every ground it stands on has WCAG's ratio of 4.5, light and dark.
func TestContrast(t *testing.T) {
	light, dark := colours(t)
	if len(light) != len(dark) || len(light) < 10 {
		t.Fatalf("%d colours in the light form, %d in the dark one", len(light), len(dark))
	}
	for form, c := range map[string]map[string]string{"light": light, "dark": dark} {
		for ground, texts := range map[string]string{
			"bg": "fg dim good bad wait link", "card": "fg dim good bad", "add": "fg dim", "del": "fg dim", "add2": "fg", "del2": "fg", "good": "on", "bad": "on", "wait": "on",
		} {
			for _, text := range strings.Fields(texts) {
				a, b := luminance(t, c[text]), luminance(t, c[ground])
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", form, text, ground, ratio)
				}
			}
		}
	}
}
