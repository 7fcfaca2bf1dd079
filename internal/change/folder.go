package change

import (
	"context"

	"sallyport.dev/sallyport"
)

// HasFolder reports whether a tree has a folder at path.
func (s *Store) HasFolder(ctx context.Context, tree sallyport.ObjectID, path string) (bool, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return false, err
	}
	defer o.close()
	e, err := o.find(tree, path)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return false, nil
	}
	return err == nil && e.isTree(), err
}
