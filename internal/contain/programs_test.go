package contain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Real programs, started from a confined thread in real namespaces, must do their work; what the layers
// refuse must stay refused to them. Work lies in a folder of the host, and the host's root shows through, so
// that toolchains are where they are.
func TestPrograms(t *testing.T) {
	files := map[string]string{
		"hello.c":        "#include <stdio.h>\n#include <pthread.h>\nstatic void *f(void *p){return p;}\nint main(void){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);puts(\"hello from c\");return 0;}\n",
		"Makefile":       "all: hello\n\t./hello\nhello: hello.c\n\tgcc -g -pthread -o hello hello.c\n",
		"go.mod":         "module example.test/x\n\ngo 1.24\n",
		"x.go":           "package x\n\nimport \"net\"\n\nfunc Listen() (net.Listener, error) { return net.Listen(\"tcp\", \"127.0.0.1:0\") }\n",
		"x_test.go":      "package x\n\nimport (\n\t\"net\"\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) {\n\tl, err := Listen()\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tc, err := net.Dial(\"tcp\", l.Addr().String())\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tc.Close()\n\tif _, err := net.Interfaces(); err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif err := exec.Command(\"true\").Run(); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n",
		"plain/plain.go": "package plain\n\nfunc One() int { return 1 }\n",
		"w.js": `const {Worker}=require('worker_threads'),cp=require('child_process'),http=require('http'),fs=require('fs'),os=require('os');
fs.watch('.').close(); os.networkInterfaces();
new Worker('require("worker_threads").parentPort.postMessage(1)',{eval:true}).on('message',()=>{
 const s=http.createServer((q,r)=>r.end('node ok')).listen(0,'127.0.0.1',()=>{
  http.get({port:s.address().port,host:'127.0.0.1'},r=>r.on('data',d=>{console.log(String(d),cp.execSync('echo child').toString());process.exit(0)}))})});
`,
		"p.py": `import asyncio, multiprocessing, os, socket, subprocess, threading, mmap, tempfile, select
def f(q): q.put(os.getpid())
if __name__ == '__main__':
    q = multiprocessing.Queue(); p = multiprocessing.Process(target=f, args=(q,)); p.start(); q.get(); p.join()
    threading.Thread(target=lambda: None).start()
    assert subprocess.check_output(['echo', 'child']) == b'child\n'
    s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()).close()
    a, b = socket.socketpair(); os.memfd_create('x'); tempfile.TemporaryFile().write(b'x')
    asyncio.run(asyncio.sleep(0)); os.mkfifo('fifo'); os.getrandom(8)
    print('python ok')
`,
		"J.java": "public class J { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> {}); t.start(); t.join(); new java.net.ServerSocket(0).close(); new ProcessBuilder(\"true\").start().waitFor(); System.out.println(\"java ok\"); } }\n",
		"refused.py": `import ctypes, errno, os, socket
l = ctypes.CDLL(None, use_errno=True)
def no(name, f, *want):
    try: f()
    except OSError as e:
        print(name, errno.errorcode[e.errno]); return
    print(name, 'ALLOWED')
def call(nr, *a):
    if l.syscall(nr, *a) < 0: raise OSError(ctypes.get_errno(), '')
no('unshare', lambda: call(272, 0x10000000))
no('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
no('mptcp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
no('etc', lambda: open('/etc/x', 'w'))
no('outside', lambda: open('/var/tmp/x', 'w'))
no('kill1', lambda: os.kill(1, 9))
no('setuid', lambda: os.setuid(0))
no('mknod', lambda: os.mknod('dev', 0o20600, 0x103))
`,
	}
	rows := []struct {
		name, need string
		run        []string
		want       string
	}{
		{"bash", "bash", []string{"bash", "-c", "set -e; mkfifo f; (echo hi > f &) ; cat f; seq 3 | sort -r | tail -1 >/dev/null; diff <(echo a) <(echo a); ulimit -n >/dev/null; echo bash ok"}, "bash ok"},
		{"git", "git", []string{"bash", "-c", "set -e; git init -q r; cd r; git config user.email a@b; git config user.name a; echo x > f; git add f; git commit -qm m; git gc -q; cd ..; git clone -q r c; git -C c log --oneline | wc -l; echo git ok"}, "git ok"},
		{"make and gcc", "gcc", []string{"make"}, "hello from c"},
		{"gdb", "gdb", []string{"bash", "-c", "gcc -g -pthread -o h hello.c && gdb -q -batch -ex 'break main' -ex run -ex bt -ex continue ./h"}, "hello from c"},
		{"strace", "strace", []string{"bash", "-c", "strace -f -o trace sh -c 'true; /bin/true' && grep -c execve trace && echo strace ok"}, "strace ok"},
		{"python", "python3", []string{"python3", "p.py"}, "python ok"},
		{"node", "node", []string{"node", "w.js"}, "node ok child"},
		{"npm", "npm", []string{"bash", "-c", "npm init -y >/dev/null && npm pack --silent --offline && npm run env --silent >/dev/null && echo npm ok"}, "npm ok"},
		{"go", "go", []string{"bash", "-c", "go build ./plain && ./x.test"}, "PASS"},
		{"java", "javac", []string{"bash", "-c", "javac J.java && java J"}, "java ok"},
		{"perl", "perl", []string{"perl", "-e", "my $p=fork; exit 0 unless $p; waitpid $p,0; print qq(perl ok\n)"}, "perl ok"},
		{"refused", "python3", []string{"python3", "refused.py"}, "unshare EPERM\nvsock EPERM\nmptcp EPROTONOSUPPORT\netc EACCES\noutside EACCES\nkill1 EPERM\nsetuid "},
		{"mknod", "python3", []string{"python3", "refused.py"}, "mknod EPERM"},
	}
	for who, user := range starters(t) {
		for _, k := range rows {
			t.Run(who+"/"+k.name, func(t *testing.T) {
				if !onConfinedPath(k.need) {
					t.Skipf("%s is not installed where every user can execute it", k.need)
				}
				work := filepath.Join(t.TempDir(), "w")
				os.Mkdir(work, 0o777)
				openUp(t, work)
				os.Mkdir(filepath.Join(work, "plain"), 0o777)
				os.Chmod(filepath.Join(work, "plain"), 0o777)
				for name, data := range files {
					if err := os.WriteFile(filepath.Join(work, name), []byte(data), 0o666); err != nil {
						t.Fatal(err)
					}
					os.Chmod(filepath.Join(work, name), 0o666)
				}
				if k.need == "go" { // its standard library is compiled outside, where that is cached
					build := exec.Command("go", "test", "-c", "-o", "x.test", ".")
					build.Dir = work
					build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTOOLCHAIN=local", "TMPDIR="+t.TempDir())
					if msg, err := build.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, msg)
					}
				}
				out := play(t, scene{HostRoot: true, Run: k.run, Work: work}, user)
				if !strings.Contains(out, k.want) || !strings.Contains(out, "exit 0 ") {
					t.Errorf("want %q and exit 0, got:\n%s", k.want, out)
				}
			})
		}
	}
}

func onConfinedPath(name string) bool {
	for _, dir := range filepath.SplitList(confinedPath) {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil && p != "" {
			return true
		}
	}
	return false
}

// openUp lets every user work in dir, whose parents are the test's own.
func openUp(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for p := filepath.Dir(dir); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		os.Chmod(p, 0o755)
	}
}
