package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// A FIFO without a reader is refused immediately, and one whose reader stops reading does not block
// readers of the mount.
func TestLogFIFO(t *testing.T) {
	dir, fifo := mountDir(t), filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testlimit.Patience)
	defer cancel()
	c := program(t, "mount", "--log", fifo, q8, dir)
	c = exec.CommandContext(ctx, c.Path, c.Args[1:]...) // ended where it blocks
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "no program reads") || bytes.Count(out, []byte("\n")) != 1 {
		t.Errorf("no reader: %v, %q", err, out)
	}
	reader, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	mountAt(t, dir, q8, "--log", fifo, "--debug") // logs more than the FIFO and the backlog hold
	asked := make(chan error, 1)
	go func() {
		b := make([]byte, 64)
		for range 2000 { // no answer comes from a cache
			if _, err := unix.Getxattr(dir, "user.tensorfs.pid", b); err != nil {
				asked <- err
				return
			}
		}
		_, err := os.ReadFile(filepath.Join(dir, "f16/output_norm.weight"))
		asked <- err
	}()
	select {
	case err := <-asked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testlimit.Patience):
		t.Fatal("a log that is stuck stops the readers")
	}
	queued, buf := 0, make([]byte, 16<<10)
	for {
		n, err := unix.Read(reader, buf)
		if n <= 0 || err != nil {
			break
		}
		queued += n
	}
	if queued < 60<<10 {
		t.Errorf("the log was not stuck: it has %d bytes", queued)
	}
	pid := statusOf(t, dir).PID
	if code, _, stderr := command("umount", dir); code != 0 {
		t.Errorf("umount: %s", stderr)
	}
	ended(t, pid)
}

// Without a log the last messages are in status, and a change of the model is noticed even without
// reads, or with reads that the kernel answers from memory.
func TestStatusOfChangedModel(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"truncated": func(path string) error { return os.Truncate(path, 4096) },
		"overwritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("other"), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := copyOf(t, q8)
			dir := mounted(t, model)
			file := filepath.Join(dir, "raw/token_embedding.weight")
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if st := statusOf(t, dir); st.State != "ok" || !st.Healthy || st.Changed == nil || len(st.Changed) != 0 || st.Errors == nil || len(st.Errors) != 0 {
				t.Errorf("before: %+v", st)
			}
			if err := change(model); err != nil {
				t.Fatal(err)
			}
			for range 2 { // each call reports it, and it is logged once
				st := statusOf(t, dir)
				if st.State != "changed" || st.Healthy || st.PID == 0 || len(st.Changed) != 1 || st.Changed[0] != model {
					t.Errorf("after: %+v", st)
				}
				if len(st.Errors) != 1 || !strings.Contains(st.Errors[0].Message, model) || time.Since(st.Errors[0].Time) > time.Hour {
					t.Errorf("messages: %+v", st.Errors)
				}
			}
			_, out, _ := command("status")
			if !strings.Contains(out, "  changed") || !strings.Contains(out, dir+": "+model+" changed") {
				t.Errorf("status prints\n%s", out)
			}
			if after, err := os.ReadFile(file); err == nil && !bytes.Equal(before, after) {
				t.Error("other bytes than before")
			}
			if _, err := os.ReadFile(filepath.Join(dir, "f16/token_embedding.weight")); !errors.Is(err, syscall.EIO) {
				t.Errorf("a file that was not read before: %v", err)
			}
		})
	}
}

// The devices of the system get one datagram a message, with its level. This
// takes a mount namespace, in which they are ours.
func TestLogDevices(t *testing.T) {
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: log devices take root")
	}
	if _, err := os.Stat("/dev/log"); err == nil {
		t.Log("syslog is tested only where there is no /dev/log")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	script := `set -eu
self=$1; model=$2; dir=$3; device=$4; socket=$5
mount -t tmpfs tmpfs "$dir"; mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/journal "$dir/m"
[ -e /dev/log ] && mount --bind /dev/null /dev/log
cp "$model" "$dir/model.gguf"
"$self" mount --log "$device" "$dir/model.gguf" "$dir/m" && exit 3 || echo "status $?"
TENSORFS_TEST_LISTEN=$socket "$self" >"$dir/log" & listener=$!
trap 'kill $listener; "$self" umount -l "$dir/m" || true' EXIT
for i in $(seq 1000); do [ -S "$socket" ] && break; sleep 0.02; done
"$self" mount --log "$device" "$dir/model.gguf" "$dir/m"
truncate -s 4096 "$dir/model.gguf"
cat "$dir/m/f16/output_norm.weight" "$dir/m/f16/token_embedding.weight" 2>/dev/null && exit 4
for i in $(seq 1000); do [ -s "$dir/log" ] && break; sleep 0.02; done
cat "$dir/log"`
	for device, want := range map[string]struct{ socket, starts, part string }{
		"journal": {"/run/systemd/journal/socket", `"PRIORITY=3\nSYSLOG_IDENTIFIER=tensorfs\nMESSAGE=msg=`, "changed after"},
		"syslog":  {"/run/syslog", `"<27>`, "changed after"}, // daemon.err; /var/run is /run
	} {
		t.Run(device, func(t *testing.T) {
			out, err := exec.Command("unshare", "-m", "sh", "-c", script, "sh", self, model, dir, device, want.socket).CombinedOutput()
			if err != nil && strings.Contains(string(out), "unshare") {
				t.Skipf("NOT TESTED: no mount namespaces here: %s", out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if err != nil || len(lines) != 3 {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.HasPrefix(lines[0], "tensorfs: --log "+device) || lines[1] != "status 1" {
				t.Errorf("without a listener: %q", lines[:2])
			}
			if !strings.HasPrefix(lines[2], want.starts) || !strings.Contains(lines[2], want.part) || strings.Contains(lines[2], "time=") {
				t.Errorf("the message is %s", lines[2])
			}
		})
	}
}
