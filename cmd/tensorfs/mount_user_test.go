package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ordinaryUser runs a shell script in which $dir/tensorfs and $dir/model.gguf (q8) can be read by
// every user, $dir/home belongs to an ordinary user, and "as" runs a command as this user. It runs
// in a mount namespace of its own, in which /dev/fuse has its usual mode. It returns the script's
// output.
func ordinaryUser(t *testing.T, script string, tools ...string) (dir, out string) {
	t.Helper()
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	for _, tool := range append(tools, "fusermount3", "unshare", "setpriv") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED as an ordinary user: %v", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = os.MkdirTemp("/tmp", "tensorfs-user"); err != nil { // which others may enter
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const head = `set -u
dir=$1; cp "$2" "$dir/tensorfs"; cp "$3" "$dir/model.gguf"; chmod 755 "$dir" "$dir/tensorfs"; chmod 644 "$dir/model.gguf"
mkdir "$dir/home"; chown 65534:65534 "$dir/home"
mknod "$dir/fuse" c 10 229; chmod 666 "$dir/fuse"; mount --bind "$dir/fuse" /dev/fuse || exit 1
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
`
	b, err := exec.Command("unshare", "-m", "sh", "-c", head+script, "sh", dir, self, q8).CombinedOutput()
	if err != nil && bytes.Contains(b, []byte("unshare")) {
		t.Skipf("NOT TESTED as an ordinary user: no mount namespaces here: %s", b)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return dir, string(b)
}

// An ordinary user mounts through fusermount3.
func TestOrdinaryUser(t *testing.T) {
	_, out := ordinaryUser(t, `set -e
mnt=$dir/home/mnt; as mkdir "$mnt"
as "$dir/tensorfs" mount "$dir/model.gguf" "$mnt"
as sha256sum "$mnt/raw/output_norm.weight" | cut -c1-64
as "$dir/tensorfs" cat "$dir/model.gguf" raw/output_norm.weight | sha256sum | cut -c1-64
as "$dir/tensorfs" umount "$mnt"
grep -c "$mnt" /proc/mounts || true
as "$dir/tensorfs" mount "$dir/model.gguf" "$mnt"
as cat "$mnt/README" >/dev/null
as pkill -TERM -u 65534 -f "as-server.*$mnt"
for i in $(seq 200); do grep -q "$mnt" /proc/mounts || break; sleep 0.05; done
grep -c "$mnt" /proc/mounts || true`, "pkill")
	lines := strings.Fields(out)
	if len(lines) != 4 || len(lines[0]) != 64 || lines[0] != lines[1] || lines[2] != "0" || lines[3] != "0" {
		t.Error(out)
	}
}

// TestHelperOfAnotherKind: where /dev/fuse cannot be opened, fusermount3 is asked all the same. In some pods it is
// a program that asks a privileged helper. If it fails too, the error is about the device.
func TestHelperOfAnotherKind(t *testing.T) {
	_, out := ordinaryUser(t, `chmod 600 "$dir/fuse"; mkdir "$dir/bin"
printf '#!/bin/sh\necho asked >"%s/home/asked"; exit 1\n' "$dir" >"$dir/bin/fusermount3"; chmod 755 "$dir/bin" "$dir/bin/fusermount3"
PATH=$dir/bin:$PATH; export PATH
as "$dir/tensorfs" mount "$dir/model.gguf" "$dir/home/mnt" 2>&1
cat "$dir/home/asked"`)
	if lines := strings.Split(out, "\n"); len(lines) != 3 || !strings.Contains(lines[0], "/dev/fuse") || lines[1] != "asked" {
		t.Error(out)
	}
}
