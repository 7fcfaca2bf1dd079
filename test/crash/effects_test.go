package crash_test

import (
	"bufio"
	"go/ast"
	"go/constant"
	"go/types"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/go/packages"

	"sallyport.dev/sallyport/test/crash/fault"
)

// primitives are what the programs have effects with: by package, functions and methods. What only passes bytes on (io.Copy) is
// not among them; the file that they go to is.
var primitives = map[string][]string{
	"os": {"Create", "CreateTemp", "OpenFile", "WriteFile", "Mkdir", "MkdirAll", "MkdirTemp", "Remove", "RemoveAll", "Rename", "Link", "Symlink", "Chmod", "Chown", "Lchown", "Chtimes", "Truncate", "StartProcess", "CopyFS",
		"File.Write", "File.WriteString", "File.WriteAt", "File.Sync", "File.Truncate", "File.Chmod", "File.Chown", "Process.Kill", "Process.Signal",
		"Root.Create", "Root.OpenFile", "Root.Mkdir", "Root.MkdirAll", "Root.Remove", "Root.RemoveAll", "Root.Rename", "Root.Link", "Root.Symlink", "Root.Chmod", "Root.Chown", "Root.Lchown", "Root.Chtimes", "Root.WriteFile"},
	"os/exec":                       {"Cmd.Run", "Cmd.Start", "Cmd.Output", "Cmd.CombinedOutput"},
	"net":                           {"Dial", "DialTimeout", "DialUnix", "Dialer.Dial", "Dialer.DialContext", "Listen", "ListenUnix", "ListenPacket", "ListenConfig.Listen", "UnixConn.WriteMsgUnix"},
	"net/http":                      {"Client.Do", "Client.Get", "Client.Post", "Transport.RoundTrip", "RoundTripper.RoundTrip"},
	"database/sql":                  {"Tx.Commit"},
	"golang.org/x/sys/unix":         system,
	"syscall":                       system,
	"github.com/google/renameio/v2": {"TempFile", "WriteFile", "NewPendingFile", "PendingFile.CloseAtomicallyReplace", "Symlink"},
}

var system = []string{"Mkdir", "Mkdirat", "Unlink", "Unlinkat", "Rmdir", "Rename", "Renameat", "Renameat2", "Link", "Linkat", "Symlink", "Symlinkat", "Chmod", "Fchmod", "Fchmodat", "Chown", "Lchown", "Fchown", "Fchownat",
	"Creat", "Openat2", "Mknod", "Mknodat", "Mount", "Unmount", "MoveMount", "OpenTree", "Fsmount", "MountSetattr", "PivotRoot", "Chroot", "Setns", "Unshare", "Sethostname", "Kill", "Tgkill", "PidfdSendSignal", "Bind", "Connect", "Listen",
	"Sendmsg", "SendmsgN", "Sendto", "Fsync", "Fdatasync", "Ftruncate", "Truncate", "Fallocate", "Utimes", "UtimesNanoAt", "Setxattr", "Lsetxattr", "Fsetxattr", "Write", "Pwrite", "Sendfile", "CopyFileRange", "IoctlFileClone", "IoctlFileCloneRange", "ForkExec", "StartProcess"}

// TestEveryEffectIsKnown: each function of the programs that calls a primitive has been seen to do so by TestMatrix, or stands in
// testdata/elsewhere.txt with the reason why it is not. So an effect that is new in the code and that no scene comes to fails here.
func TestEveryEffectIsKnown(t *testing.T) {
	seen := map[string]bool{}
	for line := range lines(t, "testdata/effects.golden") {
		f := strings.Split(line, "\t")
		for _, name := range strings.Split(f[len(f)-1], " < ") {
			seen[name] = true
		}
	}
	reasons := map[string]string{}
	for line := range lines(t, "testdata/elsewhere.txt") {
		name, why, ok := strings.Cut(line, "\t")
		if why = strings.TrimSpace(why); strings.HasPrefix(line, "#") {
			continue
		}
		if !ok || why == "" {
			t.Errorf("elsewhere.txt: %q has no reason", line)
		}
		reasons[name] = why
	}
	used := map[string]bool{}
	for name, what := range effectful(t) {
		room, _, _ := strings.Cut(name, ".")
		switch {
		case seen[name]:
			if reasons[name] != "" {
				t.Errorf("%s is in elsewhere.txt, and TestMatrix comes to it", name)
			}
		case reasons[name] != "":
			used[name] = true
		case reasons[room+".*"] != "":
			used[room+".*"] = true
		default:
			t.Errorf("%s calls %s, and no scene of TestMatrix comes to it: make one do so (and then -update), or say in testdata/elsewhere.txt why not", name, strings.Join(what, ", "))
		}
	}
	for name := range reasons {
		if !used[name] {
			t.Errorf("elsewhere.txt names %s, which has no effect (any more)", name)
		}
	}
}

func lines(t *testing.T, name string) func(func(string) bool) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if s.Text() != "" && !yield(s.Text()) {
				return
			}
		}
	}
}

// effectful are the functions of the parties' programs that call a primitive, with the primitives.
func effectful(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "sallyport.dev/sallyport/cmd/sallyport", "sallyport.dev/sallyport/cmd/sallyport-keeper", "sallyport.dev/sallyport/cmd/sallyport-runner", "sallyport.dev/sallyport/cmd/sallyport-publisher").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool { return !strings.HasPrefix(p, "sallyport.dev/sallyport") })
	all, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports, Env: append(os.Environ(), "CGO_ENABLED=0")}, ours...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				what := calledIn(p.TypesInfo, d)
				if len(what) == 0 {
					continue
				}
				name := p.PkgPath + "." + declared(d)
				if p.Name == "main" {
					name = "main." + declared(d)
				}
				name = fault.Short(name)
				for _, w := range what {
					if !slices.Contains(found[name], w) {
						found[name] = append(found[name], w)
					}
				}
			}
		}
	}
	return found
}

// declared is the name of what a declaration declares, as the linker has it but for the package.
func declared(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "init"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if s, ok := of.(*ast.StarExpr); ok {
		of = s.X
	}
	if i, ok := of.(*ast.IndexExpr); ok {
		of = i.X
	}
	return of.(*ast.Ident).Name + "." + f.Name.Name
}

// calledIn are the primitives that a declaration calls, or hands on to be called.
func calledIn(info *types.Info, d ast.Decl) (what []string) {
	reading := map[*ast.Ident]bool{} // OpenFile, without a flag that lets write
	ast.Inspect(d, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 3 {
			flags := info.Types[c.Args[1]].Value
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "OpenFile" && flags != nil {
				n, _ := constant.Int64Val(flags)
				reading[s.Sel] = n&(unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC) == unix.O_RDONLY
			}
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		f, ok := info.Uses[id].(*types.Func)
		if !ok || f.Pkg() == nil {
			return true
		}
		name := f.Name()
		if recv := f.Signature().Recv(); recv != nil {
			of := recv.Type()
			if p, ok := of.(*types.Pointer); ok {
				of = p.Elem()
			}
			named, ok := of.(*types.Named)
			if !ok {
				return true
			}
			name = named.Obj().Name() + "." + name
		}
		if slices.Contains(primitives[f.Pkg().Path()], name) && !reading[id] {
			what = append(what, path.Base(f.Pkg().Path())+"."+name)
		}
		return true
	})
	return what
}
