package change

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// CommitOptions say what one commit of ours is. Equal options make the same commit.
type CommitOptions struct {
	Tree        sallyport.ObjectID
	Parent      sallyport.ObjectID // "": a root commit
	AuthorName  string
	AuthorEmail string
	When        time.Time // of author and committer, to the second; its zone is the author's
	Message     string
}

// Commit writes the commit into the store, durable when it returns. The committer is Sallyport. Repeat: the
// same id. CodeInvalid: a NUL in the message, no subject, or a tree or parent that is not there.
func (s *Store) Commit(ctx context.Context, o CommitOptions) (sallyport.ObjectID, error) {
	bad := func(subject, why string) error {
		return &sallyport.Error{Op: "write commit", Code: sallyport.CodeInvalid, Subject: subject, Message: why}
	}
	if strings.IndexByte(o.Message, 0) >= 0 || strings.TrimSpace(o.Message) == "" {
		return "", bad("message", "expected text without NUL")
	}
	if o.When.IsZero() {
		return "", bad("when", "expected a time")
	}
	if err := s.checkCommit(ctx, o); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", o.Tree)
	if o.Parent != "" {
		fmt.Fprintf(&b, "parent %s\n", o.Parent)
	}
	fmt.Fprintf(&b, "author %s <%s> %d %s\n", identPart(o.AuthorName, "unknown"), identPart(o.AuthorEmail, "unknown@localhost"), o.When.Unix(), o.When.Format("-0700"))
	fmt.Fprintf(&b, "committer Sallyport <sallyport@localhost> %d +0000\n\n", o.When.Unix())
	b.WriteString(strings.TrimRight(strings.ToValidUTF8(o.Message, "\uFFFD"), "\n") + "\n")
	want := s.format().name("commit", []byte(b.String()))
	out, err := s.git.run(ctx, strings.NewReader(b.String()), "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil {
		return "", err
	}
	if got := strings.TrimSpace(string(out)); got != string(want) {
		return "", &sallyport.Error{Op: "write commit", Code: sallyport.CodeCorrupt, Subject: got, Message: "git and we name the same commit differently"}
	}
	return want, nil
}

func (s *Store) checkCommit(ctx context.Context, o CommitOptions) error {
	objs, err := s.objects(ctx)
	if err != nil {
		return err
	}
	defer objs.close()
	kinds := map[sallyport.ObjectID]string{o.Tree: "tree"}
	if o.Parent != "" {
		kinds[o.Parent] = "commit"
	}
	for id, kind := range kinds {
		got, _, err := objs.info(id)
		if err == nil && got != kind {
			err = &sallyport.Error{Op: "write commit", Code: sallyport.CodeInvalid, Subject: string(id), Message: "expected a " + kind + ", found a " + got}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// identPart drops what would end a name or address in a commit header.
func identPart(s, fallback string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if s = strings.Trim(s, " .,:;\"\\'"); s == "" {
		return fallback
	}
	return s
}
