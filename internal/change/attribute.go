package change

import (
	"context"
	"os"
	"path"
	"strings"

	"sallyport.dev/sallyport"
)

// Filtered are those of paths that the .gitattributes of tree give to a filter ("lfs"), as git reads them. Nobody's
// configuration counts.
func (s *Store) Filtered(ctx context.Context, tree sallyport.ObjectID, filter string, paths []string) (map[string]bool, error) {
	files, err := s.attributeFiles(ctx, tree, paths)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	index, err := os.CreateTemp(s.dir, "attributes-*.tmp")
	if err != nil {
		return nil, unwritable(err)
	}
	defer os.Remove(index.Name())
	_, err = index.Write(formatIndex(s.format(), files))
	if cerr := index.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, unwritable(err)
	}
	g := s.git
	g.env = append(g.env[:len(g.env):len(g.env)], "GIT_INDEX_FILE="+index.Name())
	out, err := g.run(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "check-attr", "--cached", "-z", "--stdin", "filter")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	f := strings.Split(string(out), "\x00")
	for ; len(f) > 3; f = f[3:] { // path, attribute, value
		if f[2] == filter {
			found[f[0]] = true
		}
	}
	return found, nil
}

// attributeFiles are the .gitattributes that lie above paths.
func (s *Store) attributeFiles(ctx context.Context, tree sallyport.ObjectID, paths []string) ([]indexEntry, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	dirs := map[string]bool{}
	for _, p := range paths {
		for d := path.Dir(p); !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	var files []indexEntry
	for d := range dirs {
		name := path.Join(d, ".gitattributes")
		e, err := o.find(tree, name)
		switch {
		case sallyport.CodeOf(err) == sallyport.CodeNotFound:
		case err != nil:
			return nil, err
		case e.isFile():
			files = append(files, indexEntry{leaf: leaf{name, e}})
		}
	}
	return files, nil
}
