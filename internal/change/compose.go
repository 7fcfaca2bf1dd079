package change

import (
	"context"

	"sallyport.dev/sallyport"
)

// Compose is tree with the version of base put back at each of paths; what base does not have there is
// removed. A path may name a folder. Used for running a change against the base's own tests.
func (s *Store) Compose(ctx context.Context, tree, base sallyport.ObjectID, paths []string) (sallyport.ObjectID, error) {
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
	for _, path := range paths {
		if err := CheckPath(path); err != nil {
			return "", err
		}
		e, err := o.find(base, path)
		switch sallyport.CodeOf(err) {
		case sallyport.CodeNotFound:
			err = b.remove(path)
		default:
			if err == nil {
				err = b.set(path, e)
			}
		}
		if err != nil {
			return "", err
		}
	}
	id, err := b.write()
	if err != nil {
		return "", err
	}
	return id, p.finish(ctx, s.git)
}
