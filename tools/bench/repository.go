package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// repository is a git repository with n text files of a few hundred bytes in folders of a hundred, made once
// and kept in the cache under a name that says what it is.
func (b *bench) repository(ctx context.Context, n int) (string, error) {
	final := filepath.Join(b.cache, "repos", fmt.Sprintf("files-%d-v1", n))
	if _, err := os.Stat(filepath.Join(final, ".git")); err == nil {
		return final, nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	for i := range n {
		if err := writeText(tmp, i); err != nil {
			return "", err
		}
	}
	if err := b.commitAll(ctx, tmp); err != nil {
		return "", err
	}
	return final, os.Rename(tmp, final)
}

func writeText(dir string, i int) error {
	sub := filepath.Join(dir, fmt.Sprintf("part%02d", i/10000), fmt.Sprintf("dir%03d", i/100%100))
	if i%100 == 0 {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
	}
	var text []byte
	for line := range 5 + i%20 {
		text = fmt.Appendf(text, "file %d has this to say in line %d\n", i, line)
	}
	return os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%02d.txt", i%100)), text, 0o644)
}

// commitAll makes dir a repository with one commit.
func (b *bench) commitAll(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "All files"}} {
		if err := git(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}
