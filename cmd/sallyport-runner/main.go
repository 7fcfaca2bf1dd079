// Command sallyport-runner is the first process inside a sandbox; `sallyport` puts it there. Under the name
// of a program that has no meaning in a sandbox (apt, sudo) it answers with one sentence. See
// internal/runner.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport/internal/runner"
)

func main() {
	if os.Getpid() == 1 && len(os.Args) == 2 && os.Args[0] == runner.Name {
		runner.Init()
	}
	if runner.Hog(os.Args[1:]) || runner.RedirectTrial(os.Args[1:]) {
		return
	}
	if s := runner.Sentence(filepath.Base(os.Args[0])); s != "" {
		fmt.Fprintln(os.Stderr, s)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "sallyport-runner is started by sallyport inside a sandbox; it has no use by hand")
	os.Exit(2)
}
