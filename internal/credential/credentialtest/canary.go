package credentialtest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// Spellings are a canary's forms by name: as it is, and in the encodings that programs write.
func Spellings(canary string) map[string][]byte {
	quoted, _ := json.Marshal(canary) // a string cannot fail
	out := map[string][]byte{
		"as it is": []byte(canary), "JSON": quoted[1 : len(quoted)-1], "URL": []byte(url.QueryEscape(canary)), "path": []byte(url.PathEscape(canary)),
		"hex": []byte(hex.EncodeToString([]byte(canary))), "HEX": bytes.ToUpper([]byte(hex.EncodeToString([]byte(canary)))),
	}
	// Base64 of any text that has it inside: by where it begins, three forms each.
	for shift, name := range []string{"base64", "base64 after 1", "base64 after 2"} {
		for alphabet, enc := range map[string]*base64.Encoding{"": base64.RawStdEncoding, " of URLs": base64.RawURLEncoding} {
			whole := enc.EncodeToString(append(make([]byte, shift), canary...))
			first := (shift*8 + 5) / 6 // what still holds bits of what stands before
			last := (shift + len(canary)) * 8 / 6
			out[name+alphabet] = []byte(whole[first:last])
		}
	}
	return out
}

// NoCanary fails for each file below roots that holds the canary in any spelling, and says how many files it read.
// A file that vanishes meanwhile holds nothing; a folder that cannot be read fails. Files that skip names, by their
// path below the root, are left out: what a person wrote themselves. A SQLite file that this process has open is
// closed before: reading it would drop the locks on it.
func NoCanary(t testing.TB, canary string, skip func(rel string) bool, roots ...string) (files int) {
	t.Helper()
	forms := Spellings(canary)
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil || skip != nil && skip(rel) {
				return err
			}
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			files++
			Holds(t, path, b, forms)
			return err
		})
		if err != nil {
			t.Errorf("look for the canary below %s: %v", root, err)
		}
	}
	return files
}

// Holds fails for each spelling that b holds; what names it.
func Holds(t testing.TB, what string, b []byte, forms map[string][]byte) {
	t.Helper()
	for name, f := range forms {
		if bytes.Contains(b, f) {
			t.Errorf("%s holds the canary, %s", what, name)
		}
	}
}
