package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNeeded(t *testing.T) {
	home := t.TempDir()
	link := filepath.Join(t.TempDir(), "home")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", link)
	for _, path := range []string{"/", "/etc", "/usr", "/home", "/tmp", "/not-there", "/root", home} {
		if needed(path) == "" {
			t.Errorf("%s is allowed", path)
		}
	}
	for _, path := range []string{"/mnt/m", "/etc/m", "/home/nobody-at-all/m", filepath.Join(home, "m")} {
		if why := needed(path); why != "" {
			t.Errorf("%s is refused: %s", path, why)
		}
	}
	for _, path := range forMounts {
		if why, empty := needed(path), isEmpty(path); (why == "") != (empty == nil) {
			t.Errorf("%s, of which it is known that %v: %q", path, empty, why)
		}
	}
}

func TestHomes(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nnone:x:1:1::relative:/bin/sh\nann:x:1000:1000:Ann:/not/there/ann/:/bin/sh\nshort:x\n"
	got := homes("/not/there/own", passwd)
	for _, want := range []string{"/not/there/own", "/root", "/not/there/ann"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
	if slices.Contains(got, "relative") || slices.Contains(got, "") {
		t.Errorf("%q", got)
	}
}
