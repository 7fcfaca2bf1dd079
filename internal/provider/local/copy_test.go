package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// Where no overlay can be mounted the workspace is a plain copy: the receipt says so, the command sees the
// same tree, and the change that comes out is the same to the byte.
func TestWithoutOverlaysTheChangeIsTheSame(t *testing.T) {
	streams := map[bool][]byte{}
	for _, without := range []bool{false, true} {
		b := newBench(t)
		b.cfg.NoOverlay = without
		top := filepath.Join(t.TempDir(), "layer")
		for name, text := range map[string]string{"added": "by the layer\n", "kept/x": "1\n", "gone/y": "2\n"} {
			p := filepath.Join(b.base, name)
			if name == "added" {
				p = filepath.Join(top, name)
			}
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mknod(filepath.Join(top, "gone"), unix.S_IFCHR, 0); err != nil { // a whiteout
			t.Fatal(err)
		}
		spec, auth := b.spec("sh", "-c", "test ! -e gone && cat added && echo 3 >> kept/x && rm added && mkdir gone && echo new > gone/z && ln -s kept l && find . -type f | sort")
		spec.Workspace.Layers = []string{top, b.base}
		w := b.running(spec, auth)
		var out, stream bytes.Buffer
		if _, err := w.Output(t.Context(), 0, &out); err != nil {
			t.Fatal(err)
		}
		if e, err := w.Wait(t.Context()); err != nil || e.Code != 0 {
			t.Fatalf("without overlays %v: %+v, %v\n%s", without, e, err, out.String())
		}
		layers, err := w.Layers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if copied := strings.Contains(layers[0].Proof, "plain copy"); layers[0].Layer != sallyport.LayerWorktree || copied != without {
			t.Errorf("without overlays %v, the receipt says %+v", without, layers[0])
		}
		if err := w.Collect(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		streams[without] = stream.Bytes()
		if b, err := os.ReadFile(filepath.Join(b.base, "kept/x")); err != nil || string(b) != "1\n" {
			t.Errorf("the base was written to: %q, %v", b, err)
		}
		w.Close()
		if err := b.Destroy(t.Context(), b.resource(spec.Allocation)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(streams[false], streams[true]) {
		t.Errorf("with overlays:    %q\nwithout overlays: %q", streams[false], streams[true])
	}
}

// running makes, connects and starts.
func (b *bench) running(spec provider.Spec, auth provider.Auth) provider.Wire {
	b.t.Helper()
	rid, err := b.Create(b.t.(*testing.T).Context(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := b.Connect(b.t.(*testing.T).Context(), rid, auth)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := w.Start(b.t.(*testing.T).Context()); err != nil {
		b.t.Fatal(err)
	}
	return w
}
