package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Files that commands write obey the umask, also files that are renamed when complete. A file that is replaced keeps
// its mode.
func TestUmask(t *testing.T) {
	for _, mask := range []string{"022", "027", "077"} {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/old.html", nil, 0o640))
		must(t, os.Chmod(dir+"/old.html", 0o640))
		for _, words := range [][]string{
			{"report", "-o", dir + "/page.html", q8}, {"report", "--force", "-o", dir + "/old.html", q8}, {"export", q8, dir + "/out", "raw/output*", "README"},
		} {
			c := program(t, words...)
			c = exec.Command("/bin/sh", append([]string{"-c", "umask " + mask + `; exec "$0" "$@"`, c.Path}, words...)...)
			c.Env = program(t).Env
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", words, err, out)
			}
		}
		want := map[string]os.FileMode{"022": 0o644, "027": 0o640, "077": 0o600}[mask]
		files := 0
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			want := want
			if filepath.Base(path) == "old.html" {
				want = 0o640
			}
			if st, err := d.Info(); err != nil || st.Mode().Perm() != want {
				t.Errorf("umask %s: %s has mode %v, want %v; %v", mask, path, st.Mode(), want, err)
			}
			return nil
		}))
		if files < 4 {
			t.Errorf("umask %s: only %d files", mask, files)
		}
	}
}
