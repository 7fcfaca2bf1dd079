package checks

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// goEdits are changes that keep a Go file's types: operators become others on the same types, conditions are
// turned around, statements are put behind `if false`. What could meet a rule on constants (arrays, cases,
// indices, overflow) is left alone.
//
// compiles tells whether the file with a fault still holds by what it tells of itself.
func goEdits(name string, src []byte) (edits []edit, compiles func([]byte) bool) {
	if !builtHere(name, src) {
		return nil, nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil
	}
	info, complaints := goInfo(fset, f)
	m := &goMutator{src: src, file: fset.File(f.FileStart), info: info}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			m.low = fn.Recv == nil && (fn.Name.Name == "main" || fn.Name.Name == "init")
			m.results = fn.Type.Results
			m.walk(fn.Body)
		}
	}
	return m.out, func(with []byte) bool { return goCompiles(name, with, complaints) }
}

// builtHere reports whether the Go tool would build this file on a machine like this one.
func builtHere(name string, src []byte) bool {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".go"), "_test"), "_")
	for i, p := range parts {
		if i > 0 && i >= len(parts)-2 && (goSystems[p] && p != runtime.GOOS || goMachines[p] && p != runtime.GOARCH) {
			return false
		}
	}
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if constraint.IsGoBuild(line) {
			x, err := constraint.Parse(line)
			return err == nil && x.Eval(func(tag string) bool {
				return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "gc" || tag == "unix" || strings.HasPrefix(tag, "go1.")
			})
		}
		if strings.HasPrefix(line, "package ") {
			break
		}
	}
	return true
}

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

var (
	goSystems  = setOf("aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos")
	goMachines = setOf("386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm sparc64")
)

type goMutator struct {
	src     []byte
	file    *token.File
	info    *types.Info
	low     bool           // in main or init
	results *ast.FieldList // of the function that is walked
	stack   []ast.Node     // the nodes above the present one
	out     []edit
}

func (m *goMutator) offset(p token.Pos) int { return m.file.Offset(p) }

func (m *goMutator) replace(from, to token.Pos, with string, r rank) {
	if m.low || m.spoken() {
		r = unseen
	}
	m.out = append(m.out, edit{from: m.offset(from), to: m.offset(to), with: with, rank: r})
}

func (m *goMutator) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			m.stack = m.stack[:len(m.stack)-1]
			return true
		}
		if m.closed(n) {
			return false
		}
		m.visit(n)
		m.stack = append(m.stack, n)
		return true
	})
}

// closed reports whether a node's insides are constants that rules hang on, or types.
func (m *goMutator) closed(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ArrayType, *ast.MapType, *ast.StructType, *ast.InterfaceType, *ast.FuncType, *ast.ChanType:
		return true
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case ast.Expr:
		return m.label(n)
	}
	return false
}

// label reports whether an expression is what a case or a key is told apart by.
func (m *goMutator) label(n ast.Expr) bool {
	switch up := m.up(0).(type) {
	case *ast.CaseClause:
		sw, ok := m.up(2).(*ast.SwitchStmt)
		return (!ok || sw.Tag != nil) && slices.Contains(up.List, n)
	case *ast.KeyValueExpr:
		return up.Key == n
	}
	return false
}

// up is the node i levels above the one that is visited.
func (m *goMutator) up(i int) ast.Node {
	if i >= len(m.stack) {
		return nil
	}
	return m.stack[len(m.stack)-1-i]
}

// spoken reports whether the present node belongs to what is only printed, logged or panicked with.
func (m *goMutator) spoken() bool {
	return slices.ContainsFunc(m.stack, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch f := c.Fun.(type) {
		case *ast.Ident:
			return f.Name == "panic" || f.Name == "print" || f.Name == "println"
		case *ast.SelectorExpr:
			x, _ := f.X.(*ast.Ident)
			return x != nil && (x.Name == "log" || x.Name == "slog" || x.Name == "errors" || x.Name == "fmt" && strings.Contains(f.Sel.Name, "rint") || x.Name == "fmt" && f.Sel.Name == "Errorf")
		}
		return false
	})
}

func (m *goMutator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		m.replace(n.Cond.Pos(), n.Cond.End(), "!("+m.text(n.Cond)+")", turned)
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.replace(n.OpPos, n.OpPos+1, "", m.unlessLoop(compared))
		}
	case *ast.Ident:
		m.boolean(n)
	case *ast.BasicLit:
		m.number(n)
	case *ast.IncDecStmt:
		if f, ok := m.up(0).(*ast.ForStmt); ok && f.Post == n {
			return
		}
		m.replace(n.TokPos, n.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok], calculated)
	case *ast.AssignStmt:
		m.assign(n)
	case *ast.ExprStmt:
		if c, ok := n.X.(*ast.CallExpr); ok && m.inBlock() {
			if f, ok := c.Fun.(*ast.Ident); !ok || f.Name != "panic" {
				m.leave(n)
			}
		}
	case *ast.ReturnStmt:
		m.swallow(n)
	}
}

func (m *goMutator) text(n ast.Node) string {
	return string(m.src[m.offset(n.Pos()):m.offset(n.End())])
}

var goSwaps = map[token.Token]struct {
	to   token.Token
	rank rank
}{
	token.EQL: {token.NEQ, compared}, token.NEQ: {token.EQL, compared},
	token.LSS: {token.GEQ, compared}, token.GEQ: {token.LSS, compared}, token.GTR: {token.LEQ, compared}, token.LEQ: {token.GTR, compared},
	token.LAND: {token.LOR, compared}, token.LOR: {token.LAND, compared},
	token.SUB: {token.ADD, calculated}, token.MUL: {token.ADD, calculated}, token.QUO: {token.SUB, calculated}, token.REM: {token.QUO, calculated},
	token.AND: {token.OR, calculated}, token.OR: {token.AND, calculated}, token.XOR: {token.OR, calculated}, token.AND_NOT: {token.OR, calculated},
	token.ADD: {token.SUB, calculated}, token.SHL: {token.SHR, calculated}, token.SHR: {token.SHL, calculated},
}

func (m *goMutator) binary(n *ast.BinaryExpr) {
	swap, ok := goSwaps[n.Op]
	switch {
	case !ok, swap.rank == calculated && m.constant(n):
		return
	case n.Op == token.ADD && !m.numeric(n.X) && !m.numeric(n.Y): // strings have it too
		return
	case (n.Op == token.LAND || n.Op == token.LOR) && sameSubject(n): // vet calls it suspect, and no test starts
		return
	}
	m.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), swap.to.String(), m.unlessLoop(swap.rank))
}

// constant reports whether the compiler may calculate an expression, and so may refuse its value. What is
// declared in another file may be a constant.
func (m *goMutator) constant(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return m.constant(n.X) && m.constant(n.Y)
	case *ast.ParenExpr:
		return m.constant(n.X)
	case *ast.UnaryExpr:
		return n.Op != token.AND && n.Op != token.ARROW && m.constant(n.X)
	case *ast.CallExpr: // a conversion, or the length of an array
		return len(n.Args) == 1 && m.constant(n.Args[0])
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		_, variable := m.info.Uses[n].(*types.Var)
		return !variable
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if !ok {
			return false
		}
		_, variable := m.info.Uses[x].(*types.Var)
		return !variable
	}
	return false
}

func (m *goMutator) numeric(n ast.Expr) bool {
	if l, ok := n.(*ast.BasicLit); ok {
		return l.Kind != token.STRING
	}
	b, ok := m.info.TypeOf(n).(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

// sameSubject reports whether a logical operator stands between comparisons of one thing with constants.
func sameSubject(n *ast.BinaryExpr) bool {
	subjects := map[string]bool{}
	same := false
	ast.Inspect(n, func(x ast.Node) bool {
		b, ok := x.(*ast.BinaryExpr)
		if ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			for _, side := range []ast.Expr{b.X, b.Y} {
				s := types.ExprString(side)
				same = same || subjects[s] && s != "nil"
				subjects[s] = true
			}
		}
		return true
	})
	return same
}

// unlessLoop is r, or looped in the head of a loop.
func (m *goMutator) unlessLoop(r rank) rank {
	for i := range m.stack {
		switch m.up(i).(type) {
		case ast.Expr:
			continue
		case *ast.ForStmt:
			return looped
		}
		break
	}
	return r
}

func (m *goMutator) boolean(n *ast.Ident) {
	if n.Name != "true" && n.Name != "false" || m.info.Uses[n] != types.Universe.Lookup(n.Name) {
		return
	}
	r := compared
	if _, ok := m.up(0).(*ast.ReturnStmt); ok {
		r = answered
	}
	m.replace(n.Pos(), n.End(), map[string]string{"true": "false", "false": "true"}[n.Name], m.unlessLoop(r))
}

// number makes a small number larger by one where nothing is measured by it at compile time.
func (m *goMutator) number(n *ast.BasicLit) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != token.INT || err != nil || v > 99 {
		return
	}
	switch up := m.up(0).(type) {
	case *ast.BinaryExpr:
		if m.constant(up) || up.Op == token.SHL || up.Op == token.SHR {
			return
		}
	case *ast.ReturnStmt, *ast.ValueSpec:
	case *ast.AssignStmt:
		if up.Tok == token.SHL_ASSIGN || up.Tok == token.SHR_ASSIGN {
			return
		}
	default: // an index, a key, an argument with a meaning of its own
		return
	}
	m.replace(n.Pos(), n.End(), strconv.Itoa(v+1), m.unlessLoop(shifted))
}

func (m *goMutator) assign(n *ast.AssignStmt) {
	if n.Tok == token.SUB_ASSIGN || n.Tok == token.ADD_ASSIGN && m.numeric(n.Rhs[0]) {
		m.replace(n.TokPos, n.TokPos+2, map[token.Token]string{token.SUB_ASSIGN: "+=", token.ADD_ASSIGN: "-="}[n.Tok], calculated)
	}
	if n.Tok != token.DEFINE && m.inBlock() {
		m.leave(n)
	}
}

// inBlock reports whether the present node stands in a list of statements, and not in the head of one.
func (m *goMutator) inBlock() bool {
	switch m.up(0).(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	}
	return false // as in a select, where it may be what is waited for
}

// leave puts a statement where it is not run; its names stay in use.
func (m *goMutator) leave(n ast.Stmt) {
	m.replace(n.Pos(), n.End(), "if false { "+m.text(n)+" }", left)
}

// swallow returns nil in place of an error that was just found.
func (m *goMutator) swallow(n *ast.ReturnStmt) {
	if len(n.Results) == 0 || m.results == nil || m.results.NumFields() != len(n.Results) || slices.ContainsFunc(m.stack, func(n ast.Node) bool { _, ok := n.(*ast.FuncLit); return ok }) {
		return
	}
	last, ok := n.Results[len(n.Results)-1].(*ast.Ident)
	kind, isIdent := m.results.List[len(m.results.List)-1].Type.(*ast.Ident)
	if !ok || last.Name == "nil" || !isIdent || kind.Name != "error" {
		return
	}
	if up, ok := m.up(1).(*ast.IfStmt); ok && strings.Contains(m.text(up.Cond), last.Name) {
		m.replace(last.Pos(), last.End(), "nil", answered)
	}
}
