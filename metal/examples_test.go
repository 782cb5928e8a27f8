package metal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testtree"
)

const docs = "../docs"

// TestDocsShowTheExamples holds the code in docs to the files that the tests run, and that
// a page shows each of them or leads to it.
func TestDocsShowTheExamples(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	shown, parts := map[string]bool{}, 0
	for _, page := range pages {
		doc, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range regexp.MustCompile("(?s)<!-- (examples/\\S+) -->\n```\\w+\n(.*?)```\n").FindAllStringSubmatch(string(doc), -1) {
			file, err := os.ReadFile(filepath.Join(docs, b[1]))
			if err != nil {
				t.Error(err)
			} else if b[2] != string(file) {
				t.Errorf("%s shows another %s than the file", page, b[1])
			}
			shown[b[1]] = true
		}
		// A part of a program has lines of the file in their order.
		for _, b := range regexp.MustCompile("(?s)<!-- part of (examples/\\S+) -->\n```\\w+\n(.*?)```\n").FindAllStringSubmatch(string(doc), -1) {
			file, err := os.ReadFile(filepath.Join(docs, b[1]))
			if err != nil {
				t.Error(err)
			}
			rest := string(file)
			for line := range strings.Lines(b[2]) {
				line = strings.TrimSpace(line)
				_, after, found := strings.Cut(rest, line)
				if line != "..." && !found {
					t.Errorf("%s shows %q, which %s lacks at that place", page, line, b[1])
				} else if line != "..." {
					rest = after
				}
			}
			parts++
		}
		for _, link := range regexp.MustCompile(`\]\((examples/\S+)\)`).FindAllStringSubmatch(string(doc), -1) {
			shown[link[1]] = true
		}
	}
	for _, want := range []string{"engine.c", "engine.cc", "ctypes_engine.py", "goweights/main.go", "goengine/main.go", "engine.mm", "numpy_engine.py", "pytorch_engine.py"} {
		if !shown["examples/"+want] {
			t.Errorf("no page shows %s", want)
		}
	}
	if parts == 0 {
		t.Error("no page shows a part of a program")
	}
}

// counting is a tree whose one tensor holds 0, 1, 2, ... in shape [64, 64], also
// as an npy file.
func counting(t *testing.T) (mount, name string) {
	t.Helper()
	name = "token_embedding.weight"
	tree := testtree.Sample()
	i := slices.IndexFunc(tree.Tensors, func(x testtree.Tensor) bool { return x.View == "f16" && x.Name == name })
	header := fmt.Sprintf("\x93NUMPY\x01\x00\xf6\x0f%-4085s\n", "{'descr': '<f2', 'fortran_order': False, 'shape': (64, 64), }")
	npy := tree.Tensors[i]
	npy.View, npy.Name, npy.Data = "npy", name+".npy", append([]byte(header), npy.Data...)
	tree.Tensors = append(tree.Tensors, npy)
	mount, _ = tree.Write(t)
	return mount, name
}

// countingSum is the sum of those numbers: up to 2048 all are halves, beyond that
// the even ones.
func countingSum() int {
	sum := 0
	for i := range 4096 {
		if i > 2048 {
			i &^= 1
		}
		sum += i
	}
	return sum
}

// python returns an interpreter that has a module, or skips.
func python(t *testing.T, module string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in the short form: Python with %s", module)
	}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	t.Skipf("NOT TESTED: the %s example, because there is no python3 with it", module)
	return ""
}

func TestNumPyExample(t *testing.T) {
	mount, name := counting(t)
	out, err := exec.Command(python(t, "numpy"), filepath.Join(docs, "examples/numpy_engine.py"), mount, name).CombinedOutput()
	want := fmt.Sprintf("%s (64, 64) float16 [0. 1. 2. 3.] %d.0\n", name, countingSum())
	if err != nil || string(out) != want {
		t.Errorf("%v\n%swant %s", err, out, want)
	}
}

// Python's compiler reads the PyTorch example wherever there is Python.
func TestPyTorchExampleCompiles(t *testing.T) {
	cmd := exec.Command(python(t, "ast"), "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", filepath.Join(docs, "examples/pytorch_engine.py"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPyTorchExample(t *testing.T) {
	mount, name := counting(t)
	out, err := exec.Command(python(t, "torch"), filepath.Join(docs, "examples/pytorch_engine.py"), mount, name).CombinedOutput()
	want := fmt.Sprintf("%s (64, 64) torch.float16 tensor([0., 1., 2., 3.], dtype=torch.float16) %d.0\n", name, countingSum())
	if err != nil || string(out) != want {
		t.Errorf("%v\n%swant %s", err, out, want)
	}
}

func TestGoExample(t *testing.T) {
	mount, name := counting(t)
	program := filepath.Join(t.TempDir(), "goengine")
	if out, err := exec.Command("go", "build", "-o", program, docs+"/examples/goengine").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bytes, err := os.ReadFile(filepath.Join(mount, "f16", name))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, b := range bytes {
		sum += int(b)
	}
	out, err := exec.Command(program, mount, "f16", name).CombinedOutput()
	if want := fmt.Sprintf("%s F16 [64 64] 8192 bytes, sum %d\n", name, sum); err != nil || string(out) != want {
		t.Errorf("%v\n%swant %s", err, out, want)
	}
	if out, err := exec.Command(program, mount, "raw", "nothing").CombinedOutput(); err == nil || !strings.Contains(string(out), "not in the model") {
		t.Errorf("a tensor that is not there: %v\n%s", err, out)
	}
}
