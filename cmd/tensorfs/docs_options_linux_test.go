package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The files that say what OPTIONS of the service may be.
var optionsFiles = []string{"docs/install.md", "docs/remote.md", "docs/examples/kubernetes.yaml", "scripts/packaging/llama.conf", "scripts/packaging/try-service"}

// TestServiceOptions starts the server as the packaged unit does, with the OPTIONS of
// each document, which systemd splits at blanks.
func TestServiceOptions(t *testing.T) {
	needFUSE(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: the service runs as root")
	}
	unit, err := os.ReadFile("../../scripts/packaging/tensorfs@.service")
	must(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/tensorfs (.*)$`).FindStringSubmatch(string(unit))
	if start == nil || !strings.Contains(start[1], " $OPTIONS ") {
		t.Fatalf("the unit starts %q", start)
	}
	options := regexp.MustCompile("OPTIONS=([^`\n]*)")
	for _, file := range optionsFiles {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile("../../" + file)
			must(t, err)
			found := options.FindAllStringSubmatch(string(text), -1)
			if len(found) == 0 {
				t.Fatal("it has no OPTIONS")
			}
			for _, f := range found {
				dir, cache := mountDir(t), filepath.Join(t.TempDir(), "cache")
				model, err := filepath.Abs(q8)
				must(t, err)
				t.Setenv("NOTIFY_SOCKET", startSystemdAlike(t).socket)
				given := strings.ReplaceAll(f[1], "/var/cache/tensorfs", cache)
				line := strings.NewReplacer("$OPTIONS", given, "${MODEL}", model, "${MOUNTPOINT}", dir).Replace(start[1])
				c, said := startedAs(t, nil, os.Stderr, nil, strings.Fields(line)...)
				mounts, err := os.ReadFile("/proc/mounts")
				letIn := regexp.MustCompile(regexp.QuoteMeta(dir) + " fuse.tensorfs [^ ]*allow_other").Match(mounts)
				if err != nil || letIn != strings.Contains(given, "--allow-other") {
					t.Errorf("%s: others are let in: %v, %v", given, letIn, err)
				}
				stillThere(t, c, said)
			}
		})
	}
}
