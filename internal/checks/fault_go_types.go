package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// goInfo is what one file alone tells of its names and types; what it takes from elsewhere is not known, and
// complained about.
func goInfo(fset *token.FileSet, f *ast.File) (*types.Info, map[string]int) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	return info, goCheck(fset, f, info)
}

// goCheck lists what a type checker that sees only this file complains about, without places.
func goCheck(fset *token.FileSet, f *ast.File, info *types.Info) map[string]int {
	complaints := map[string]int{}
	conf := types.Config{
		Importer: emptyImports{}, FakeImportC: true, DisableUnusedImportCheck: true,
		Error: func(err error) { complaints[err.(types.Error).Msg]++ },
	}
	_, _ = conf.Check("p", fset, []*ast.File{f}, info)
	return complaints
}

// emptyImports gives every package by its likely name and with nothing in it.
type emptyImports struct{}

var majorVersion = pattern.New(`^v\d+$`)

func (emptyImports) Import(name string) (*types.Package, error) {
	base := path.Base(name)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(name))
	}
	base, _, _ = strings.Cut(base, ".")
	p := types.NewPackage(name, strings.TrimPrefix(base, "go-"))
	p.MarkComplete()
	return p, nil
}

// goCompiles reports whether a file with a fault gives rise to no complaint that it did not without.
func goCompiles(name string, src []byte, before map[string]int) bool {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	for msg, n := range goCheck(fset, f, nil) {
		if n > before[msg] {
			return false
		}
	}
	return true
}
