package change

import (
	"bytes"
	"context"

	"sallyport.dev/sallyport"
)

// Compose is tree with the version of base put back at each of paths; what base does not have there is
// removed. A path may name a folder. Used for running a change against the base's own tests.
func (s *Store) Compose(ctx context.Context, tree, base sallyport.ObjectID, paths []string) (sallyport.ObjectID, error) {
	return s.edit(ctx, tree, func(b *builder) error {
		for _, path := range paths {
			if err := CheckPath(path); err != nil {
				return err
			}
			e, err := b.objects.find(base, path)
			switch sallyport.CodeOf(err) {
			case sallyport.CodeNotFound:
				err = b.remove(path)
			default:
				if err == nil {
					err = b.set(path, e)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Replace is tree with other content in the file at path, whose mode stays. CodeNotFound: no such file.
func (s *Store) Replace(ctx context.Context, tree sallyport.ObjectID, path string, content []byte) (sallyport.ObjectID, error) {
	return s.edit(ctx, tree, func(b *builder) error {
		if err := CheckPath(path); err != nil {
			return err
		}
		e, err := b.objects.find(tree, path)
		if err != nil {
			return err
		}
		if e.id, err = b.pack.add(objBlob, int64(len(content)), bytes.NewReader(content)); err != nil {
			return err
		}
		return b.set(path, e)
	})
}

// edit is tree as do leaves it. Repeat with the same edits: the same tree.
func (s *Store) edit(ctx context.Context, tree sallyport.ObjectID, do func(*builder) error) (sallyport.ObjectID, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return "", err
	}
	defer o.close()
	p, err := s.newPack()
	if err != nil {
		return "", err
	}
	defer p.close()
	b := newBuilder(o, p, tree, maxEntries)
	if err := do(b); err != nil {
		return "", err
	}
	id, err := b.write()
	if err != nil {
		return "", err
	}
	return id, p.finish(ctx, s.git)
}

// Has reports whether tree has anything at path.
func (s *Store) Has(ctx context.Context, tree sallyport.ObjectID, path string) (bool, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return false, err
	}
	defer o.close()
	if err := CheckPath(path); err != nil {
		return false, err
	}
	_, err = o.find(tree, path)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

// File is the regular file at path in tree. CodeNotFound: no such path; CodeInvalid: it is no regular file;
// CodeExhausted: it is larger than max bytes.
func (s *Store) File(ctx context.Context, tree sallyport.ObjectID, path string, max int64) ([]byte, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	e, err := o.find(tree, path)
	if err != nil {
		return nil, err
	}
	if e.mode != modeFile && e.mode != modeExec {
		return nil, &sallyport.Error{Op: "read tree", Code: sallyport.CodeInvalid, Subject: printable(path), Message: "is no regular file"}
	}
	data, err := o.read(e.id, "blob", max)
	return data, absent(err)
}
