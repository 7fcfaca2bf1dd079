package checks

import (
	"go/ast"
	"go/importer"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Every fault in real Go code must still compile: the type checker is the compiler's own.
func TestFaultsOfGoCompile(t *testing.T) {
	packages := []string{"sort", "text/scanner", "container/list", "encoding/csv", "bufio"}
	tried := 0
	for _, pkg := range packages {
		tried += compileFaults(t, filepath.Join(runtime.GOROOT(), "src", pkg), pkg, 6)
	}
	t.Logf("%d faults", tried)
	if tried < 60 {
		t.Errorf("only %d faults were found in %v", tried, packages)
	}
}

func compileFaults(t *testing.T, dir, pkg string, every int) int {
	t.Helper()
	fset := gotoken.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	srcs := map[string][]byte{}
	files := map[string]*ast.File{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || !builtHere(name, b) {
			continue
		}
		f, err := parser.ParseFile(fset, name, b, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		srcs[name], files[name] = b, f
	}
	imp := importer.ForCompiler(fset, "source", nil)
	check := func(replace string, with *ast.File) error {
		var all []*ast.File
		for n, f := range files {
			if n == replace {
				f = with
			}
			all = append(all, f)
		}
		conf := types.Config{Importer: imp, FakeImportC: true}
		_, err := conf.Check(pkg, fset, all, nil)
		return err
	}
	if err := check("", nil); err != nil {
		t.Logf("%s does not type-check as it is: %v", pkg, err)
		return 0
	}
	tried := 0
	for name, src := range srcs {
		for i, f := range everyFault(name, src) {
			if i%every != 0 {
				continue
			}
			tried++
			parsed, err := parser.ParseFile(fset, name, f.Content, parser.SkipObjectResolution)
			if err == nil {
				err = check(name, parsed)
			}
			if err != nil {
				t.Errorf("%s:%d: %s -> %s: %v", name, f.Line, f.Was, f.Now, err)
			}
		}
	}
	return tried
}

// everyFault is Faults for each stretch of ten lines as if the change had added it, so that more than the
// best of a file are tried.
func everyFault(name string, src []byte) []Fault {
	lines := strings.SplitAfter(string(src), "\n")
	var out []Fault
	for from := 0; from < len(lines); from += 10 {
		base := strings.Join(lines[:from], "") + strings.Join(lines[min(from+10, len(lines)):], "")
		out = append(out, Faults(name, []byte(base), src)...)
	}
	return out
}

// corpus lists up to n real files of a language, from what its tool has installed.
func corpus(t *testing.T, tool string, n int, list func() []string) []string {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("this machine has no %s", tool)
	}
	all := list()
	var out []string
	for i := 0; i < len(all) && len(out) < n; i += max(len(all)/n, 1) {
		if fi, err := os.Stat(all[i]); err == nil && fi.Mode().IsRegular() && fi.Size() < 40<<10 {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 {
		t.Skipf("%s brings no source files", tool)
	}
	return out
}

func TestFaultsOfPythonParse(t *testing.T) {
	files := corpus(t, "python3", 12, func() []string {
		out, err := exec.Command("python3", "-c", "import glob,os;print('\\n'.join(sorted(glob.glob(os.path.dirname(os.__file__)+'/*.py')+glob.glob(os.path.dirname(os.__file__)+'/*/*.py'))))").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	})
	dir := writeFaults(t, files, ".py")
	out, err := exec.Command("python3", "-c", `
import sys,os
for n in sorted(os.listdir(sys.argv[1])):
    p = os.path.join(sys.argv[1], n)
    if n.endswith('.py'):
        try: compile(open(p,'rb').read(), n, 'exec')
        except SyntaxError as e: print(n, e)
`, dir).CombinedOutput()
	report(t, dir, string(out), err)
}

func TestFaultsOfJavaScriptParse(t *testing.T) {
	files := corpus(t, "node", 12, func() []string {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		_ = filepath.WalkDir(filepath.Join(filepath.Dir(node), "../lib/node_modules"), func(p string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(p, ".js") && !strings.HasSuffix(p, ".min.js") {
				out = append(out, p)
			}
			return nil
		})
		return out
	})
	dir := writeFaults(t, files, ".js")
	out, err := exec.Command("node", "-e", `
const fs=require('fs'),path=require('path'),vm=require('vm');
for (const n of fs.readdirSync(process.argv[1])) {
  const src=fs.readFileSync(path.join(process.argv[1],n),'utf8').replace(/^#!.*/,'');
  const ok=s=>{try{new vm.Script('(async function(exports,require,module){'+s+'\n})');return true}catch(e){return e.message}};
  if(!n.endsWith('.js'))continue;
  const was=fs.readFileSync(path.join(process.argv[1],n.replace(/\.js$/,'.was')),'utf8').replace(/^#!.*/,'');
  if(ok(was)!==true)continue;
  const r=ok(src); if(r!==true)console.log(n,r);
}`, dir).CombinedOutput()
	report(t, dir, string(out), err)
}

func writeFaults(t *testing.T, files []string, end string) string {
	t.Helper()
	dir := t.TempDir()
	n := 0
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range everyFault(name, src) {
			if i%5 != 0 {
				continue
			}
			stem := filepath.Join(dir, filepath.Base(name)+"."+itoa(n))
			n++
			for p, b := range map[string][]byte{stem + end: f.Content, stem + ".was": src, stem + ".txt": []byte(name + ":" + itoa(f.Line) + ": " + f.Was + " -> " + f.Now)} {
				if err := os.WriteFile(p, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("%d faults in %d files", n, len(files))
	if n < len(files) {
		t.Errorf("only %d faults in %d files", n, len(files))
	}
	return dir
}

// report fails for each line that names a fault that does not parse.
func report(t *testing.T, dir, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(out) {
		name, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		what, _ := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(name, filepath.Ext(name))+".txt"))
		t.Errorf("%s: %s", what, why)
	}
}
