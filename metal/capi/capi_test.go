package main

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/metal/internal/testtree"
)

// compiler returns the C compiler, or skips.
func compiler(t *testing.T) string {
	t.Helper()
	for _, cc := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
		if path, err := exec.LookPath(cc); cc != "" && err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED: the C interface, because there is no C compiler (cc, gcc, clang or $CC)")
	return ""
}

// archiveDir is where buildArchive puts libtensorfs.a.
var archiveDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tensorfs-capi")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	archiveDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var buildArchive = sync.OnceValues(func() (string, error) {
	archive := filepath.Join(archiveDir, "libtensorfs.a")
	cmd := exec.Command("go", "build", "-buildmode=c-archive", "-o", archive, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return archive, nil
})

// compile builds a C program with the archive and returns it.
func compile(t *testing.T, source string) string {
	t.Helper()
	cc := compiler(t)
	archive, err := buildArchive()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I", ".", "-o", program, source, archive, "-lpthread"}
	if runtime.GOOS == "darwin" {
		args = append(args, "-framework", "CoreFoundation")
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	return program
}

// run runs a program and returns its lines.
func run(t *testing.T, program string, args ...string) []string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// A C program sees through tensorfs.h what the tree holds.
func TestC(t *testing.T) {
	program := compile(t, "testdata/check.c")
	tree := testtree.Sample()
	mount, _ := tree.Write(t)
	views := []string{"f16", "raw", "packed", "fused"}
	got := run(t, program, append([]string{mount}, views...)...)

	var want []string
	for _, view := range views {
		var total int
		var lines []string
		tensors := slices.Clone(tree.Tensors)
		slices.SortFunc(tensors, func(a, b testtree.Tensor) int { return cmp.Compare(a.Name, b.Name) })
		for _, x := range tensors {
			if x.View != view {
				continue
			}
			b := tree.Bytes(x)
			total += len(b)
			h := fnv.New64a()
			h.Write(b)
			engine := -1
			if x.Engine != nil {
				engine = *x.Engine
			}
			line := fmt.Sprintf("%s/%s %s %d %s %d %016x copied 0", view, x.Name, x.DType, engine,
				strings.ReplaceAll(fmt.Sprint(x.Shape), " ", ","), len(b), h.Sum64())
			if q := x.Quant; q != nil {
				line += fmt.Sprintf(" %s/%d/%d", q.Mode, q.Bits, q.GroupSize)
			}
			for _, s := range x.Sections {
				line += fmt.Sprintf(" %s:%s:%d+%d", s.Name, s.DType, s.Offset, s.Bytes)
			}
			lines = append(lines, line)
		}
		want = append(append(want, fmt.Sprintf("prefetched %d", total)), lines...)
	}
	want = append(want,
		`error: metal: "nothing": no such view`,
		`error: metal: "nothing" is not in view "f16": not in the mounted tree`,
		`error: metal: "nothing" is not in view "f16": not in the mounted tree`)
	if !strings.HasPrefix(got[0], "device ") {
		t.Errorf("first line %q", got[0])
	}
	if !slices.Equal(got[1:], want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got[1:], "\n"), strings.Join(want, "\n"))
	}
}

// The C example of docs/engines.md runs.
func TestExample(t *testing.T) {
	program := compile(t, "../../docs/examples/engine.c")
	tree := testtree.Sample()
	mount, _ := tree.Write(t)
	sum := 0
	for _, b := range tree.Sources["model.gguf"][4128 : 4128+72_000] {
		sum += int(b)
	}
	got := run(t, program, mount, "raw", "layers.0.attention.q.weight")
	if want := []string{fmt.Sprintf("layers.0.attention.q.weight Q4_K [500, 256] 72000 bytes, sum %d", sum)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	out, err := exec.Command(program, mount, "raw", "nothing").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"nothing" is not in view "raw"`) {
		t.Errorf("a tensor that is not there: %v, %s", err, out)
	}
}

// The header is C++ too, as an Objective-C++ engine needs it.
func TestHeaderIsCPlusPlus(t *testing.T) {
	cxx := ""
	for _, name := range []string{"c++", "g++", "clang++"} {
		if path, err := exec.LookPath(name); err == nil {
			cxx = path
			break
		}
	}
	if cxx == "" {
		t.Skip("NOT TESTED: the header as C++, because there is no C++ compiler (c++, g++ or clang++)")
	}
	cmd := exec.Command(cxx, "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", ".", "-")
	cmd.Stdin = strings.NewReader("#include \"tensorfs.h\"\nint main() { return tensorfs_close(nullptr, nullptr); }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The Metal example cannot be compiled without a Mac; what it takes from
// tensorfs.h must at least be there.
func TestMetalExampleNames(t *testing.T) {
	header, err := os.ReadFile("tensorfs.h")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../docs/examples/engine.mm")
	if err != nil {
		t.Fatal(err)
	}
	uses := regexp.MustCompile(`\btensorfs_\w+|->(\w+)|\]\.(\w+)`).FindAllStringSubmatch(string(example), -1)
	if len(uses) < 10 {
		t.Fatalf("only %d uses were found", len(uses))
	}
	for _, use := range uses {
		name := cmp.Or(use[1], use[2], use[0])
		if !regexp.MustCompile(`\b` + name + `\b`).Match(header) {
			t.Errorf("%s is not in tensorfs.h", name)
		}
	}
}
