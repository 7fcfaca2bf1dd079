package change

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport/internal/collect"
)

// bigRepo has n files of about 300 bytes in n/50 folders.
func bigRepo(b *testing.B, n int) *fixture {
	b.Helper()
	top := filepath.Join(b.TempDir(), "big")
	os.Mkdir(top, 0o755)
	runGit(b, top, "init", "-q", "-b", "main")
	for i := range n {
		dir := filepath.Join(top, fmt.Sprintf("d%d/e%d", i/2500, i/50))
		if i%50 == 0 {
			os.MkdirAll(dir, 0o755)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", i)), bytes.Repeat([]byte(fmt.Sprintln(i)), 50), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	runGit(b, top, "add", "-A")
	runGit(b, top, "commit", "-q", "-m", "big")
	f := &fixture{t: b, top: top, state: filepath.Join(b.TempDir(), "state")}
	f.open()
	return f
}

func benchSizes(b *testing.B, run func(b *testing.B, f *fixture)) {
	for _, n := range []int{5_000, 50_000} {
		if n > 5_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) { run(b, bigRepo(b, n)) })
	}
}

func BenchmarkCheckout(b *testing.B) {
	benchSizes(b, func(b *testing.B, f *fixture) {
		o := CheckoutOptions{Commit: f.head().Commit, BaseRef: "refs/heads/main", Branch: "sallyport/x", Identity: "a"}
		b.Run("build", func(b *testing.B) {
			for b.Loop() {
				os.RemoveAll(f.store.cacheDir())
				os.Mkdir(f.store.cacheDir(), 0o700)
				c, err := f.store.Checkout(bg, o)
				if err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
		first, err := f.store.Checkout(bg, o)
		if err != nil {
			b.Fatal(err)
		}
		first.Release()
		b.Run("reuse", func(b *testing.B) {
			for b.Loop() {
				c, err := f.store.Checkout(bg, o)
				if err != nil || !c.Reused {
					b.Fatal(err, c.Reused)
				}
				c.Release()
			}
		})
		b.Run("compare", func(b *testing.B) {
			for b.Loop() {
				c, err := f.store.Checkout(bg, o)
				if err != nil || !c.Reused {
					b.Fatal(err, c.Reused)
				}
				if err := c.Verified(bg); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
		b.Run("status-in-overlay", func(b *testing.B) {
			c, err := f.store.Checkout(bg, o)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Release()
			for b.Loop() {
				out, _ := inOverlay(b, mountJob{Lower: []string{c.Files}, GitDir: c.GitDir, Script: "git status --porcelain"})
				if out != "" {
					b.Fatal(out)
				}
			}
		})
		b.Run("dirty", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := f.repo.Dirty(bg); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("import-10", func(b *testing.B) {
			changes := map[string]string{}
			for i := range 10 {
				changes[fmt.Sprintf("d0/e%d/f%d.txt", i, i*50)] = fmt.Sprint("new ", i)
			}
			data := stream(b, changes)
			for b.Loop() {
				if _, err := f.store.Import(bg, f.head().Tree, bytes.NewReader(data), collect.DefaultLimits()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("layer-10", func(b *testing.B) {
			changes := map[string]string{}
			for i := range 10 {
				changes[fmt.Sprintf("d0/e%d/f%d.txt", i, i*50)] = fmt.Sprint("new ", i)
			}
			tree := f.importTree(f.head().Tree, changes)
			for b.Loop() {
				if err := f.store.Layer(bg, f.head().Tree, tree, filepath.Join(b.TempDir(), "l")); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
