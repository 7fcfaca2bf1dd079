package selftest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/corpus"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/publication"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/wire"
)

// rooms are the library functions that are given bytes where no agent's script can send them: what a sandbox or a
// Mission Control that has been taken over would say. Each refuses them with an error, or says what it made of them.
var rooms = map[string]func([]byte) (string, error){
	"change-stream":       changeStream,
	"handover":            handover,
	"hello":               hello,
	"publication-request": publicationRequest,
	"receipt":             receipt,
	"approval":            personsApproval,
	"host":                func(b []byte) (string, error) { n, err := egress.Host(string(b)); return n.String(), err },
	"client-hello":        clientHello,
	"text":                func(b []byte) (string, error) { return screen.Text(b), nil },
	"source":              func(b []byte) (string, error) { return screen.Source(b), nil },
}

// InRoom gives a case's bytes to its room.
func InRoom(k corpus.Case) (Status, string) {
	got, err := rooms[k.Room](k.Input)
	switch {
	case k.Want == nil && err == nil:
		return NotHeld, fmt.Sprintf("%s takes it for %.100q", k.Room, got)
	case k.Want == nil:
		for _, s := range k.Says {
			if !strings.Contains(err.Error(), s) {
				return NotHeld, fmt.Sprintf("%s refuses it for another reason: %v", k.Room, err)
			}
		}
		return Held, fmt.Sprintf("refused by %s: %v", k.Room, err)
	case err != nil:
		return NotHeld, fmt.Sprintf("%s: %v", k.Room, err)
	case got != *k.Want:
		return NotHeld, fmt.Sprintf("%s makes %.200q of it, expected %.200q", k.Room, got, *k.Want)
	}
	return Held, "harmless by " + k.Room
}

// changeStream reads what a sandbox says that its agent changed.
func changeStream(b []byte) (string, error) {
	r := collect.NewReader(bytes.NewReader(b), collect.DefaultLimits())
	var said strings.Builder
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return strings.TrimSpace(said.String()), nil
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&said, "%c %s\n", rec.Kind, rec.Path)
	}
}

// handover reads what a Mission Control says that it wants published: the commit's id in the first line, then a pack.
func handover(b []byte) (string, error) {
	commit, pack, _ := bytes.Cut(b, []byte("\n"))
	h, err := change.ReadHandover(bytes.NewReader(pack), sallyport.ObjectID(commit))
	return fmt.Sprintf("%d changes", len(h.Changes)), err
}

// hello reads the first frame that anybody sends who reaches a keeper's socket.
func hello(b []byte) (string, error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = theirs.Write(b)
		_ = theirs.Close()
	}()
	h, err := wire.ReadHello(ours)
	return string(h.Allocation), err
}

func publicationRequest(b []byte) (string, error) {
	q, err := publication.ReadRequest(bytes.NewReader(b))
	return fmt.Sprint(q.PackBytes), err
}

// receipt reads the public keys that are trusted, an empty line, and what is said to be an Attempt's evidence by one of them.
func receipt(b []byte) (string, error) {
	trusted, envelope, _ := bytes.Cut(b, []byte("\n\n"))
	keys, err := evidence.ParsePublicKeys(append(trusted, '\n'))
	if err != nil {
		return "", err
	}
	v, err := evidence.Verify(envelope, keys, evidence.Expect{})
	p := v.Statement.Predicate
	return fmt.Sprintf("%s %s", p.Decision.Decision, p.Result.Commit), err
}

// personsApproval reads the public key that may approve, in one line, and what is said to be an approval by it.
func personsApproval(b []byte) (string, error) {
	line, blob, _ := bytes.Cut(b, []byte("\n"))
	key, err := approval.ParseKey("una", string(line))
	if err != nil {
		return "", err
	}
	a, by, err := approval.Verify(blob, []approval.AllowedKey{key})
	return fmt.Sprintf("%s %s", by.Person, a.Evidence), err
}

// clientHello says the name that a TLS connection asks for.
func clientHello(b []byte) (string, error) {
	n, _, err := egress.ClientHello(b)
	return n.String(), err
}
