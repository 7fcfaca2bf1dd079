package change
import ("testing")
func TestZZ(t *testing.T){
	f := newFixture(t, SHA1, sampleFiles)
	start := f.importTree(f.head().Tree, sampleFiles)
	t.Log(f.storeGit("ls-tree","-r",string(start)))
	dir := t.TempDir(); write(t, dir, sampleFiles)
	g := t.TempDir()
	runGit(t, g, "init", "-q", "--bare")
	t.Log(runGit(t, dir, "--git-dir="+g, "--work-tree="+dir, "add", "-A", "-f", "--", "."))
	t.Log(runGit(t, dir, "--git-dir="+g, "--work-tree="+dir, "ls-files","-s"))
}
