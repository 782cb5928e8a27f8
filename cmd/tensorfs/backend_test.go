package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
)

func TestNFSCommand(t *testing.T) {
	const token = "00112233445566778899aabbccddeeff"
	for goos, want := range map[string]string{
		"darwin": "/sbin/mount_nfs -o rdonly,nosuid,nodev,noexec,nobrowse,vers=3,tcp,rsize=1048576,readahead=16,dsize=65536,rdirplus,locallocks,actimeo=3600,soft,intr,timeo=100,retrans=3,deadtimeout=60,noresvport,port=2050,mountport=2050 127.0.0.1:/" + token + " /m",
		"linux":  "mount -t nfs -o ro,nosuid,nodev,noexec,vers=3,tcp,mountproto=tcp,rsize=1048576,nolock,actimeo=3600,soft,timeo=100,retrans=3,noresvport,port=2050,mountport=2050 127.0.0.1:/" + token + " /m",
	} {
		programs, args, err := nfsCommand(goos, 2050, token, "/m")
		if err != nil || len(programs) == 0 {
			t.Fatalf("%s: %v %v", goos, programs, err)
		}
		if got := programs[0] + " " + strings.Join(args, " "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", goos, got, want)
		}
	}
	if _, _, err := nfsCommand("plan9", 2050, token, "/m"); err == nil || !strings.Contains(err.Error(), "tensorfs serve") {
		t.Errorf("%v", err)
	}
}

func TestMayMountNFS(t *testing.T) {
	for _, test := range []struct {
		goos string
		uid  int
		may  bool
	}{{"linux", 0, true}, {"linux", 1000, false}, {"darwin", 501, true}, {"darwin", 0, true}} {
		if err := mayMountNFS(test.goos, test.uid); (err == nil) != test.may {
			t.Errorf("%s, user %d: %v", test.goos, test.uid, err)
		}
	}
}

func TestNFSAdvice(t *testing.T) {
	for _, test := range []struct {
		goos           string
		kernel, helper bool
		said, want     string
	}{
		{"linux", false, false, "", "modprobe nfs"},
		{"linux", false, true, "", "modprobe nfs"},
		{"linux", true, false, "", "nfs-common"},
		{"linux", true, true, "", "--backend fuse"},
		{"linux", true, true, "mount.nfs: Failed to find 'tcp' protocol", "netbase"}, // in a minimal Debian
		{"darwin", true, false, "", "macFUSE"},
	} {
		if got := nfsAdvice(test.goos, test.kernel, test.helper, test.said); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestBackends(t *testing.T) {
	if defaultBackend("linux") != "fuse" || defaultBackend("darwin") != "nfs" {
		t.Error("another backend is the default")
	}
	for _, name := range backendNames {
		if backends[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if len(backendNames) != len(backends) {
		t.Errorf("%d names of %d backends", len(backendNames), len(backends))
	}
	folder, err := filepath.Abs(ggufDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string // of the error
	}{
		{[]string{"--backend", "smb"}, "want fuse or nfs"},
		{[]string{"--backend", "nfs", "--no-passthrough"}, "--no-passthrough is for --backend fuse alone"},
		{[]string{"--backend", "nfs", "--debug"}, "--debug is for --backend fuse alone"},
		{[]string{"-o", "backend=nfs,read_ahead=4"}, "--read-ahead is for --backend fuse alone"},
		{[]string{"--backend", "nfs", "-o", "ro,uid=1,noatime"}, "-o uid=1,noatime"},
		{[]string{"--backend", "nfs", folder}, "a library"},
	} {
		args := slices.Concat([]string{"mount", "-f"}, test.args)
		if !slices.Contains(args, folder) {
			args = append(args, q8)
		}
		code, out, stderr := command(append(args, filepath.Join(t.TempDir(), "m"))...)
		if code != cli.ExitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: %d %q %q", args, code, out, stderr)
		}
	}
}
