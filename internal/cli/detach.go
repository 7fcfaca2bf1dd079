package cli

import (
	"bytes"
	"io"
	"time"
)

// detachLate is how long the keys typed before may take to be taken: a sandbox that reads nothing holds nobody.
const detachLate = 2 * time.Second

// detachReader passes keys on and watches for Ctrl-P Ctrl-Q. A Ctrl-P is held until the next key tells what it
// was. Programs may switch the terminal to other spellings of the same keys, so those count as well. It detaches
// when the keys before are on their way: whoever reads asks for more only then.
type detachReader struct {
	r      io.Reader
	detach func()

	held    []byte      // a Ctrl-P, as it came
	out     []byte      // ready to be read
	late    *time.Timer // the keys came: detaches where nobody asks for more, since what was typed before is not taken
	pending error
}

// The spellings of one key: its control character, the CSI u form (kitty's protocol), the same with the event
// type "press", and xterm's modifyOtherKeys.
var (
	ctrlP = [][]byte{{0x10}, []byte("\x1b[112;5u"), []byte("\x1b[112;5:1u"), []byte("\x1b[27;5;112~")}
	ctrlQ = [][]byte{{0x11}, []byte("\x1b[113;5u"), []byte("\x1b[113;5:1u"), []byte("\x1b[27;5;113~")}
)

func (d *detachReader) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.late != nil {
			if d.late.Stop() {
				d.detach()
			}
			d.late, d.pending = nil, io.EOF
		}
		if d.pending != nil {
			return 0, d.pending
		}
		buf := make([]byte, 4096)
		n, err := d.r.Read(buf)
		if err != nil {
			d.pending = err
		}
		d.take(buf[:n])
		if err != nil { // no key will come that could complete it
			d.out, d.held = append(d.out, d.held...), nil
		}
	}
	n := copy(p, d.out)
	d.out = d.out[n:]
	return n, nil
}

// take sorts new bytes into out and held. After a detach nothing more is passed.
func (d *detachReader) take(in []byte) {
	for len(in) > 0 {
		if d.held != nil {
			if prefixOf(in, ctrlQ) != nil {
				d.held, d.late = nil, time.AfterFunc(detachLate, d.detach)
				return
			}
			d.out, d.held = append(d.out, d.held...), nil
		}
		if key := prefixOf(in, ctrlP); key != nil {
			d.held, in = key, in[len(key):]
			continue
		}
		d.out, in = append(d.out, in[0]), in[1:]
	}
}

func prefixOf(in []byte, keys [][]byte) []byte {
	for _, k := range keys {
		if bytes.HasPrefix(in, k) {
			return k
		}
	}
	return nil
}
