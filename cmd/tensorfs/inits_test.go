package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Limits of what is allocated before main: every command pays for it, whatever it does. A table
// that is read from text, and an expression, are made at their first use.
const (
	maxInitAllocs = 250  // of a package
	maxOwnAllocs  = 1400 // of all packages of this module
)

// largeInits are packages of other modules that allocate more, as they may. They compile
// expressions for names of buckets, artifacts and digests. The limits leave room for the race
// detector and for other releases.
var largeInits = map[string]int{
	"github.com/minio/minio-go/v7/pkg/s3utils": 3000,
	"oras.land/oras-go/v2/registry":            2500,
	"github.com/opencontainers/go-digest":      1200,
	"github.com/hanwen/go-fuse/v2/fuse":        400,
	"go.yaml.in/yaml/v3":                       400,
}

func TestInits(t *testing.T) {
	cmd := exec.Command(os.Args[0], "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen, own := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		n, _ := strconv.Atoi(m[2])
		name, ours := strings.CutPrefix(m[1], "github.com/tensorfs/tensorfs/")
		if !strings.Contains(m[1], ".") || name == "cmd/tensorfs" || strings.Contains(m[1], "/internal/testing/") {
			continue // the standard library, and what only tests have
		}
		if ours {
			seen++
			own += n
		}
		if most := max(maxInitAllocs, largeInits[m[1]]); n > most {
			t.Errorf("%s makes %d allocations at start, want at most %d", m[1], n, most)
		}
	}
	if seen < 10 {
		t.Errorf("%d packages of the module are in the trace:\n%s", seen, out)
	}
	if own > maxOwnAllocs {
		t.Errorf("all packages of the module make %d allocations at start, want at most %d", own, maxOwnAllocs)
	}
}

// The flags of a command are made only for a line that may be about them.
func TestFlagsOfOneCommand(t *testing.T) {
	for _, c := range []struct{ line, flags string }{
		{"", "ls info mount cache"}, {"ls model.gguf", "ls"}, {"version", ""}, {"--version", ""}, {"-V", ""},
		{"model.gguf", "ls info mount cache"}, {"help ls", "ls info mount cache"}, {"--help", "ls info mount cache"}, {"unmount /mnt", "ls info mount cache"},
	} {
		root := newRootFor(system(runtime.GOOS), strings.Fields(c.line)...)
		var have []string
		for name := range strings.FieldsSeq("ls info mount cache") {
			if found, _, err := root.Find([]string{name}); err != nil || found == root {
				t.Errorf("%q: there is no command %s", c.line, name)
			} else if found.Flags().HasFlags() {
				have = append(have, name)
			}
		}
		if got := strings.Join(have, " "); got != c.flags {
			t.Errorf("%q: %q have flags, want %q", c.line, got, c.flags)
		}
	}
}
