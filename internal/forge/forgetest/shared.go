package forgetest

import (
	"os"
	"sync"
	"testing"
)

// shared outlives the test that started it.
var shared struct {
	sync.Mutex
	gitea   *Gitea
	cleanup []func()
}

// Shared is one Gitea for all tests of a program, whose TestMain ends it with EndShared.
func Shared(t testing.TB) *Gitea {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.gitea == nil {
		shared.gitea = Start(outliving{t})
	}
	return shared.gitea
}

// EndShared ends it, if there is one.
func EndShared() {
	shared.Lock()
	defer shared.Unlock()
	for i := len(shared.cleanup) - 1; i >= 0; i-- {
		shared.cleanup[i]()
	}
	shared.cleanup, shared.gitea = nil, nil
}

// outliving is a test whose end ends nothing.
type outliving struct{ testing.TB }

func (o outliving) Cleanup(f func()) { shared.cleanup = append(shared.cleanup, f) }

func (o outliving) TempDir() string {
	dir, err := os.MkdirTemp("", "sallyport-forge-")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
