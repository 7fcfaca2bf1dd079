package inspect

import "sallyport.dev/sallyport/internal/checks"

// RunnerConfig reports whether a path is build or test-runner configuration: a file through which a change
// could make a check pass without doing what it should. Validation puts the base's back and runs the checks
// that way as well.
func RunnerConfig(p string) bool { return runner(placeOf(p)) }

func runner(at place) bool {
	_, _, ok := checks.Loaded(at.path)
	return ok
}

// script reports whether the configuration is a program itself, run by merely building or testing.
func script(at place) bool { return checks.LoadedProgram(at.path) }

// lifecycle are the scripts of a package.json that npm runs without being asked.
var lifecycle = []string{"preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish", "prepublishOnly", "prepack", "postpack", "dependencies"}
