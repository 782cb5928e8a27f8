package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views/tree"
)

// exported are the files below a directory, the export's own ones left out.
func exported(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".tensorfs-export" {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExportIsCat exports whole trees of every kind of source and compares each
// file with what cat prints.
func TestExportIsCat(t *testing.T) {
	t.Parallel()
	for _, model := range []string{q8, splitTwo, "../../testdata/models-mlx/qwen3-mixed", "../../testdata/whole-gguf/llama3"} {
		t.Run(filepath.Base(model), func(t *testing.T) {
			dir := t.TempDir()
			code, out, stderr := command("export", "--json", model, dir, ".")
			var r exportReport
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || stderr != "" {
				t.Fatalf("exit code %d, %s %s", code, out, stderr)
			}
			tree, err := (&modelFlags{}).open(model)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Model.Close()
			n, links, bytes := 0, 0, int64(0)
			err = tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
				switch {
				case e.Link != "":
					links++
				case e.Data != nil:
					n++
					bytes += e.Data.Size()
					_, want, _ := command("cat", model, path)
					if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
						t.Errorf("%s has %d bytes, %v; cat prints %d", path, len(got), err, len(want))
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if list := exported(t, dir); len(list) != n || r != (exportReport{dir, n, bytes, n, links, nil}) {
				t.Errorf("%d files, %d of them expected, %+v", len(list), n, r)
			}
			code, out, stderr = command("export", model, dir, ".")
			if want := cli.Size(bytes) + "\n"; code != 0 || stderr != "" || !strings.HasSuffix(out, " files, "+want) || strings.Count(out, "\n") != 1 {
				t.Errorf("again: exit code %d, %q %q", code, out, stderr)
			}
		})
	}
}

// TestExportSelects holds what patterns select.
func TestExportSelects(t *testing.T) {
	for _, test := range []struct {
		patterns []string
		n        int
		some     string
	}{
		{[]string{"gguf/model.gguf"}, 1, "gguf/model.gguf"},
		{[]string{"gguf"}, 2, "gguf/tensorfs.json"},
		{[]string{"/gguf/"}, 2, "gguf/model.gguf"},
		{[]string{"config.json", "README", "config.json"}, 2, "README"},
		{[]string{"raw"}, 21, "index.json"},
		{[]string{"raw/*", "raw"}, 21, "raw/output_norm.weight"},
		{[]string{"raw", "index.json"}, 21, "index.json"},
		{[]string{"f16/layers.[0].*", "metadata/general.*"}, 0, "index.json"},
		{[]string{"*/output_norm.weight"}, 6, "packed/output_norm.weight"},
		{[]string{`"raw/output_norm.weight"`}, 2, "index.json"},
		{[]string{"source/*", "README", "metadata"}, 0, "metadata/general.architecture"},
	} {
		dir := t.TempDir()
		code, out, stderr := command(append([]string{"export", q8, dir}, test.patterns...)...)
		list := exported(t, dir)
		if slices.Contains(test.patterns, "source/*") { // only links are an error
			if code != 1 || len(list) > 0 || !strings.Contains(stderr, "links") {
				t.Errorf("%q: exit code %d, %q, %q", test.patterns, code, list, stderr)
			}
			continue
		}
		if code != 0 || stderr != "" || test.n != 0 && len(list) != test.n || !slices.Contains(list, test.some) {
			t.Errorf("%q: exit code %d, %q, %s%s", test.patterns, code, list, out, stderr)
		}
	}
}

// TestExportFails holds exit codes and the one line with the reason.
func TestExportFails(t *testing.T) {
	dir, mlx := t.TempDir(), "../../testdata/models-mlx/qwen3-mixed"
	if code, _, stderr := command("export", q8, dir, "config.json"); code != 0 {
		t.Fatal(stderr)
	}
	theirs := t.TempDir()
	if err := os.WriteFile(filepath.Join(theirs, "README"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A directory of a model is not written over by its own export.
	own := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(mlx, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(own, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const bigEndian = "../../testdata/ggml/big_endian.gguf"
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{q8, dir}, 2, "usage: tensorfs export"},
		{[]string{q8, dir, "raw/["}, 2, "[ without ]"},
		{[]string{q8, dir, ""}, 2, "an argument is empty"},
		{[]string{"--jobs", "-1", q8, dir, "raw"}, 2, "--jobs -1"},
		{[]string{"--jobs", "x", q8, dir, "raw"}, 2, "see tensorfs export --help"},
		{[]string{"--gguf-type", "q9", q8, dir, "raw"}, 2, "--gguf-type"},
		{[]string{filepath.Join(dir, "none.gguf"), dir, "raw"}, 1, "no such file"},
		{[]string{q8, dir, "raw/none"}, 1, "raw/none is not in the tree; tensorfs ls " + q8 + " shows the paths"},
		{[]string{q8, dir, "raw/none*"}, 1, "tensorfs ls " + q8 + " shows all"},
		{[]string{q8, dir, "raw", "none"}, 1, "none is not in the tree"},
		{[]string{q8, dir, "source"}, 1, "links to the model's own files"},
		{[]string{bigEndian, t.TempDir(), "gguf"}, 1, "gguf/ has no files: the model is big-endian"},
		{[]string{bigEndian, t.TempDir(), "gguf/model.gguf"}, 1, "gguf/ leaves it out: the model is big-endian"},
		{[]string{splitTwo, dir, "raw"}, 1, "its model is "},
		{[]string{"--i2s", "128", q8, dir, "raw"}, 1, "its --i2s is the default, not 128; choose another directory, or --force"},
		{[]string{q8, theirs, "README"}, 1, "exists already, with other content; choose another directory, or --force to replace it"},
		{[]string{q8, filepath.Join(theirs, "README"), "README"}, 1, "not a directory"},
		{[]string{"--force", own, own, "config.json"}, 1, "a file of the model itself"},
	} {
		code, out, stderr := command(append([]string{"export"}, test.args...)...)
		if code != test.code || out != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, %q; want %d, %q", test.args, code, out, stderr, test.code, test.want)
		}
	}
	o := &exportOptions{free: func(string) (int64, error) { return 1000, nil }}
	if err := o.run(silent(t), []string{q8, t.TempDir(), "gguf/model.gguf"}); err == nil ||
		!strings.Contains(err.Error(), "90112 bytes (88.0 KiB) are to be written, but only 1000 bytes") {
		t.Error(err)
	}
	refused := filepath.Join(t.TempDir(), "a/b") // it leaves nothing that it made
	if err := o.run(silent(t), []string{q8, refused, "gguf/model.gguf"}); err == nil {
		t.Error("exported without space")
	}
	if _, err := os.Lstat(filepath.Dir(refused)); !os.IsNotExist(err) {
		t.Error("an empty directory is left:", err)
	}
	if got := exported(t, dir); !slices.Equal(got, []string{"config.json"}) {
		t.Errorf("%q", got)
	}
}

// bigModel is a safetensors file with a tensor of n bytes, and its path.
func bigModel(t *testing.T, n int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	b := testmodel.Safetensors([]testmodel.SafeTensor{
		{Name: "a", DType: tensorfs.BF16, Shape: []int64{n / 2}}, {Name: "z", DType: tensorfs.BF16, Shape: []int64{5}}}, nil)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExportKilled kills the program while it writes, and runs it again.
func TestExportKilled(t *testing.T) {
	t.Parallel()
	model, dir := bigModel(t, 256<<20), t.TempDir()
	args := []string{"export", "-j1", model, dir, "raw"}
	for attempt := 0; ; attempt++ {
		c := exec.Command(os.Args[0], args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		testlimit.Wait(t, "stretch", func() bool {
			log, _ := os.ReadFile(filepath.Join(dir, ".tensorfs-export", "log"))
			return strings.Contains(string(log), `"stretch"`)
		})
		kerr := c.Process.Kill()
		err := c.Wait()
		if state, ok := errors.AsType[*exec.ExitError](err); ok && kerr == nil && state.Sys().(syscall.WaitStatus).Signaled() {
			break
		}
		if attempt == 10 {
			t.Fatal("it is too fast to be killed")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range exported(t, dir) { // what has its name is whole, and index.json is not there
		b, err := os.ReadFile(filepath.Join(dir, name))
		if _, want, _ := command("cat", model, name); err != nil || string(b) != want || name == indexName {
			t.Errorf("%s has %d bytes, %v; cat prints %d", name, len(b), err, len(want))
		}
	}
	if code, out, stderr := command(args...); code != 0 || stderr != "" || !strings.HasPrefix(out, "3 files, ") {
		t.Fatalf("exit code %d, %q %q", code, out, stderr)
	}
	for _, name := range []string{"raw/a", "raw/z", indexName} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if _, want, _ := command("cat", model, name); err != nil || string(b) != want {
			t.Errorf("%s has %d bytes, %v; cat prints %d", name, len(b), err, len(want))
		}
	}
}

// TestExportOfAChangedModel neither goes on with the files of an earlier state nor
// leaves them beside new ones.
func TestExportOfAChangedModel(t *testing.T) {
	model, dir := bigModel(t, 1<<10), t.TempDir()
	if code, _, stderr := command("export", model, dir, "raw/a"); code != 0 {
		t.Fatal(stderr)
	}
	b, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(model, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := command("export", model, dir, "raw/z")
	if code != 1 || !strings.Contains(stderr, "its file model.safetensors is ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, _, stderr := command("export", "--force", model, dir, "raw/z"); code != 0 || stderr != "" {
		t.Error(stderr)
	}
	if got := exported(t, dir); !slices.Equal(got, []string{"index.json", "raw/z"}) {
		t.Errorf("%q", got)
	}
	// The advice is one for exports, not for mounts.
	err = exportAdvice(&tensorfs.ChangedError{File: "/m", Why: "it was written to"})
	if !errors.Is(err, tensorfs.ErrChanged) || err.Error() != "/m: the file changed while the model was exported (it was written to); export it to another directory, or again with --force" {
		t.Error(err)
	}
}

// TestExportInterrupted ends with one line, and the same command goes on.
func TestExportInterrupted(t *testing.T) {
	model, dir := bigModel(t, 256<<20), t.TempDir()
	c := exec.Command(os.Args[0], "export", "-j1", model, dir, "raw")
	var stderr strings.Builder
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "partial file", func() bool {
		list, err := filepath.Glob(filepath.Join(dir, ".tensorfs-export", "*.partial"))
		return err == nil && len(list) > 0
	})
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	if c.ProcessState.ExitCode() != 1 || stderr.String() != "tensorfs: interrupted; the same command goes on where this one stopped\n" {
		t.Errorf("%v, %q", err, stderr.String())
	}
	if slices.Contains(exported(t, dir), indexName) {
		t.Error("index.json is there")
	}
}

// An export is a model.
func TestExportIsModel(t *testing.T) {
	for _, patterns := range []string{"raw config.json metadata.json", "raw hf config.json metadata.json", "packed config.json metadata.json", "f16"} {
		dir := filepath.Join(t.TempDir(), "export")
		if code, _, stderr := command(append([]string{"export", q8, dir}, strings.Fields(patterns)...)...); code != 0 {
			t.Fatal(stderr)
		}
		args := [][]string{{"info", dir}, {"stat", dir}, {"cat", dir, "README"}, {"ls", "-l", dir}, {"verify", dir}, {"export", dir, dir + "2", "f16"}}
		if strings.HasPrefix(patterns, "raw") {
			args = append(args, []string{"diff", dir, q8})
		}
		for _, args := range args {
			if code, out, stderr := command(args...); code != 0 || out == "" || stderr != "" {
				t.Errorf("%s: %q: exit code %d, %q, %q", patterns, args, code, out, stderr)
			}
		}
		for _, name := range exported(t, dir+"2") {
			if !strings.HasPrefix(name, "f16/") {
				continue
			}
			_, want, _ := command("cat", q8, name)
			if got, err := os.ReadFile(filepath.Join(dir+"2", name)); err != nil || string(got) != want {
				t.Errorf("%s: %s has other bytes (%v)", patterns, name, err)
			}
		}
		if code, out, _ := command("cat", dir, "gguf/tensorfs.json"); code != 0 || !strings.Contains(out, "name the model that it was exported from") {
			t.Errorf("%s: gguf/: %s", patterns, out)
		}
	}
	// A directory without a view is not an export, and the advice names one that is.
	dir := filepath.Join(t.TempDir(), "export")
	if code, _, stderr := command("export", q8, dir, "gguf"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := command("info", dir); code != 1 || !strings.Contains(stderr, "name one, such as "+dir+"/gguf") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// namesModel reports whether a file of the tree contains the path of the model.
func namesModel(path string) bool {
	return path == "README" || path == "index.json" || strings.HasPrefix(path, tree.IndexDir+"/")
}

// TestExportOfExported: a directory to which hf/ and mlx/ were exported is a model like any other,
// and its tensorfs.json describes the source.
func TestExportOfExported(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	succeeds(t, "export", "../../testdata/lora/plain-bf16-f32/base", first, "hf")
	succeeds(t, "export", filepath.Join(first, "hf"), second, "hf", "gguf", "mlx")
	for _, name := range []string{"config.json", "model.safetensors", "tensorfs.json"} {
		a, err := os.ReadFile(filepath.Join(first, "hf", name))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(second, "hf", name))
		must(t, err)
		if string(a) != string(b) {
			t.Errorf("hf/%s is another one:\n%.1000q\n%.1000q", name, b, a)
		}
	}
}
