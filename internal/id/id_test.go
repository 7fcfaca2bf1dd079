package id_test

import (
	"encoding/base64"
	"sync"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
)

func TestNewIsWellFormedAndGrows(t *testing.T) {
	last := ""
	for range 5000 {
		s, err := id.New(sallyport.AttemptPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := sallyport.CheckID(sallyport.AttemptPrefix, s); err != nil {
			t.Fatal(err)
		}
		if s <= last {
			t.Fatalf("%s was made after %s but does not sort after it", s, last)
		}
		last = s
	}
}

func TestNewIsUniqueAcrossGoroutines(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				s, err := id.New(sallyport.AllocationPrefix)
				mu.Lock()
				if err != nil || seen[s] {
					t.Errorf("id %q: repeated or failed: %v", s, err)
				}
				seen[s] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestSecretHas256BitsAndNeverRepeats(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s, err := id.Secret()
		if err != nil {
			t.Fatal(err)
		}
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil || len(b) != 32 {
			t.Fatalf("secret of %d bytes (%v), want 32", len(b), err)
		}
		if seen[s] {
			t.Fatal("a secret was handed out twice")
		}
		seen[s] = true
	}
}
