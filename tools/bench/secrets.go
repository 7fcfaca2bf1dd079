package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zricethezav/gitleaks/v8/detect"

	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/secret"
)

// How much is looked at: of source, what a large change adds; of a log, what a talkative test run says.
const (
	scanBytes   = 4 << 20
	redactBytes = 32 << 20
	scanBudget  = 30 * time.Second // inspect.Limits.Time
)

// secrets: what looking for credentials costs, in a change and in a log.
func (b *bench) secrets(ctx context.Context) error {
	heading("6. Looking for credentials: Go's own source as added content, and a test's log")
	if err := b.scan(ctx); err != nil {
		return err
	}
	return b.redact(ctx)
}

func (b *bench) scan(ctx context.Context) error {
	files, texts, err := sources(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	secret.Scan("", []byte("x"), began.Add(time.Minute))
	first := time.Since(began)
	n, hits := 0, 0
	ours := contender{name: "Sallyport: gitleaks and own rules, decoded twice, three readings", once: func(context.Context) (time.Duration, error) {
		n, hits = 0, 0
		began := time.Now()
		for i, t := range texts {
			found, done := secret.Scan(files[i], t, began.Add(time.Hour))
			if !done {
				return 0, fmt.Errorf("%s: not to the end", files[i])
			}
			n, hits = n+len(t), hits+len(found)
		}
		return time.Since(began), nil
	}}
	plain, err := peerScan("gitleaks 8.30.1, plain", texts, 0)
	if err != nil {
		return err
	}
	deep, err := peerScan("gitleaks 8.30.1, decoded twice", texts, 2)
	if err != nil {
		return err
	}
	all, err := race(ctx, min(b.rounds, 7), 40*time.Second, ours, plain, deep)
	if err != nil {
		return err
	}
	show(all, ours, plain, deep)
	fmt.Printf("  %.1f MB in %d files, %d findings; %s to load the rules, once, at the first scan\n", float64(n)/1e6, len(files), hits, ms(first))
	for _, c := range []contender{ours, plain, deep} {
		speed := float64(n) / all[c.name].median().Seconds()
		fmt.Printf("  %-58s %6.1f MB/s: %5.0f MB inside of %v\n", c.name, speed/1e6, speed*scanBudget.Seconds()/1e6, scanBudget)
	}
	ratio("Sallyport against gitleaks plain", all[ours.name], all[plain.name], 1)
	return nil
}

// peerScan has the library alone look at the same files, each as a whole, as its own program does; reading its
// rules is not in the time.
func peerScan(name string, texts [][]byte, depth int) (contender, error) {
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return contender{}, err
	}
	d.MaxDecodeDepth, d.IgnoreGitleaksAllow = depth, true
	return contender{name: name, once: func(context.Context) (time.Duration, error) {
		began := time.Now()
		for _, t := range texts {
			d.DetectBytes(t)
		}
		return time.Since(began), nil
	}}, nil
}

// sources are files of Go's net packages, which are full of keys, tokens and authorities.
func sources(ctx context.Context) (files []string, texts [][]byte, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, nil, err
	}
	n := 0
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src", "net"), func(p string, e fs.DirEntry, err error) error {
		if err != nil || n > scanBytes || !strings.HasSuffix(p, ".go") {
			return err
		}
		b, err := os.ReadFile(p)
		files, texts, n = append(files, p), append(texts, b), n+len(b)
		return err
	})
	return files, texts, err
}

// redact measures the redactor against the plainest program that looks for as many words.
func (b *bench) redact(ctx context.Context) error {
	known := map[string][]byte{}
	for i := range 10 {
		known[fmt.Sprintf("SECRET%d", i)] = fmt.Appendf(nil, "%c%c-0123456789-secret-value-%d", 'a'+i, 'z'-i, i*7919)
	}
	r, err := screen.NewRedactor(known)
	if err != nil {
		return err
	}
	log, words := filepath.Join(b.dir, "log"), filepath.Join(b.dir, "words")
	if err := writeLog(log, known["SECRET3"]); err != nil {
		return err
	}
	if err := os.WriteFile(words, bytes.Join(r.Forms(), []byte{'\n'}), 0o644); err != nil {
		return err
	}
	ours := contender{name: "Sallyport's redactor: 10 secrets in all spellings, twice", once: func(context.Context) (time.Duration, error) {
		f, err := os.Open(log)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		began := time.Now()
		w := r.Writer(io.Discard)
		if _, err = io.Copy(w, f); err == nil {
			err = w.Close()
		}
		return time.Since(began), err
	}}
	grep := contender{name: "grep -F of the same words", once: func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, "grep", "-F", "-c", "-f", words, log)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		return whole(cmd)
	}}
	all, err := race(ctx, min(b.rounds, 7), 20*time.Second, ours, grep)
	if err != nil {
		return err
	}
	show(all, ours, grep)
	fi, err := os.Stat(log)
	if err != nil {
		return err
	}
	for _, c := range []contender{ours, grep} {
		fmt.Printf("  %-58s %6.1f MB/s\n", c.name, float64(fi.Size())/1e6/all[c.name].median().Seconds())
	}
	absolute("redacting a log of 32 MiB", all[ours.name], time.Second)
	return nil
}

// writeLog writes a coloured test run that says a secret now and then.
func writeLog(path string, value []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for n := 0; n < redactBytes; {
		k, err := fmt.Fprintf(w, "=== RUN   TestSomething/with_a_name_%d\n    \x1b[32mok\x1b[0m file_test.go:42: all is well, 0.01s\n", n)
		if err != nil {
			return err
		}
		if n += k; n%1000 < 100 {
			fmt.Fprintf(w, "token %s\n", value)
		}
	}
	return w.Flush()
}
