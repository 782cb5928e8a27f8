package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

const hostileData = "../../testdata/hostile-manifests"

// chosen are the verdicts where two are allowed.
var chosen = map[string]string{
	"digest-upper":      "accept", // digits are lowered
	"digest-mismatch":   "accept", // bytes are hashed by "tensorfs verify" only
	"name-newline":      "reject",
	"name-long":         "accept", // the file name is shortened
	"canonical-clash":   "accept", // one keeps its source name
	"quant-no-scale":    "accept", // these are raw bytes only
	"quant-no-bias":     "accept",
	"quant-scale-shape": "accept",
	"quant-scale-dtype": "accept",
	"quant-unknown":     "accept",
	"quant-group-zero":  "accept",
	"quant-group-text":  "accept",
	"model-and-tensor":  "reject",
	"two-models":        "reject", // the last one counts, and here it holds no tensor
	"config-missing":    "accept", // it is a hint
	"schema-1":          "accept", // as in Ollama
	"json-trailing":     "reject",
	"json-dup-key":      "reject",
	"json-bom":          "reject",
}

// tensorsOf are the numbers of tensors of accepted cases that have more or less than one.
var tensorsOf = map[string]int{"packed-ok": 2, "case-pair": 2, "canonical-clash": 2, "quant-no-bias": 2, "quant-scale-shape": 3,
	"quant-scale-dtype": 2, "quant-unknown": 2, "quant-group-zero": 3, "quant-group-text": 3}

// hostileStore copies the store and adds the cases that are too large, or are
// no file.
func hostileStore(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "models")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(hostileData, "models"))); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "manifests", defaultHost, defaultNamespace)
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Join(library, name), 0o755), os.WriteFile(filepath.Join(library, name, "latest"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("json-deep", `{"layers":`+strings.Repeat("[", 100000)+strings.Repeat("]", 100000)+"}")
	var layers []string
	for i := range 2000 {
		layers = append(layers, fmt.Sprintf(`{"mediaType":"application/vnd.ollama.image.tensor","digest":"sha256:22574f123b0134db82fa77a460b1726c0e44f6de023b3a4e6ea21d3f6e3c1bee","size":8296,"name":"model.layers.%d.mlp.up_proj.weight"}`, i))
	}
	write("many-layers", `{"layers":[`+strings.Join(layers, ",")+"]}")
	if err := os.Mkdir(filepath.Join(dir, "blobs", "sha256-333178788eae3e0b14c9b07bbbb6232bfa4689c7f134eeaa9daae60aba96de53"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// smallStore has the cases control and packed-ok.
func smallStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "models")
	from := filepath.Join(hostileData, "models")
	for _, path := range []string{
		"manifests/registry.ollama.ai/library/control/latest", "manifests/registry.ollama.ai/library/packed-ok/latest", "blobs/" + controlBlob, "blobs/" + tinyBlob,
		"blobs/sha256-76091b9d52a47a20a579132a7feaf186c2306fc7392681567e48a1597b3ff09b", "blobs/sha256-3f0db7695270b1134fb8f23241b6a6f468e50b724733979e8c96cc20c28c5b8d",
		"blobs/sha256-3984643df951a35941f29c8819964b4aef5b328a4c7b763ef126ffade8b4a53a",
	} {
		b, err := os.ReadFile(filepath.Join(from, path))
		to := filepath.Join(dir, path)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestHostile(t *testing.T) {
	t.Setenv("OLLAMA_MODELS", hostileStore(t))
	b, err := os.ReadFile(filepath.Join(hostileData, "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(cases) != 65 {
		t.Errorf("%d cases", len(cases))
	}
	for _, line := range cases {
		name, verdict, _ := strings.Cut(line, "\t")
		t.Run(name, func(t *testing.T) {
			if verdict == "either" {
				verdict = chosen[name]
			}
			var m *tensorfs.Model
			var err error
			testlimit.Work(t, 50, func() {
				if m != nil {
					m.Close()
				}
				if n := testlimit.Allocated(func() { m, err = OpenName(name, true) }); n > 16<<20 {
					t.Errorf("it allocates %d bytes", n)
				}
			})
			if m != nil {
				defer m.Close()
			}
			switch {
			case verdict == "accept" && err != nil:
				t.Fatal(err)
			case verdict == "accept":
				checkAccepted(t, name, m)
			case verdict != "reject":
				t.Fatalf("verdict %q", verdict)
			case err == nil:
				t.Fatalf("opened with %d tensors", len(m.Tensors))
			default:
				checkRefused(t, name, err)
			}
		})
	}
}

func checkAccepted(t *testing.T, name string, m *tensorfs.Model) {
	want := max(1, tensorsOf[name])
	if len(m.Tensors) != want {
		t.Errorf("%d tensors, want %d", len(m.Tensors), want)
	}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		bytesOf(t, x)
		if strings.HasPrefix(name, "quant-") && (x.Opaque == "" || x.Quant != nil) {
			t.Errorf("%s: its numbers are shown: %+v", x.Source, x.Quant)
		}
	}
}

func checkRefused(t *testing.T, name string, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "ollama: "+name+":latest: ") || strings.ContainsAny(text, "\n\x00\x1b") || len(text) > 1000 {
		t.Errorf("%q is no line about the model", text)
	}
	if !strings.HasPrefix(name, "json-") && !strings.Contains(text, "layer") && !strings.Contains(text, "sha256") && !strings.Contains(text, "manifest") {
		t.Errorf("%q names neither layer nor digest", text)
	}
	if !errors.Is(err, tensorfs.ErrFormat) && !errors.Is(err, tensorfs.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q has no kind", text)
	}
}

// controlBlob is the blob of the case control, tinyBlob a smaller one.
const (
	controlBlob = "sha256-22574f123b0134db82fa77a460b1726c0e44f6de023b3a4e6ea21d3f6e3c1bee"
	tinyBlob    = "sha256-0ec8d9f5405b6aa750ef7cabe6a497873579f640fa74a17e05b342380f3ce50f"
)

// TestHostileFiles has the cases that are about files and not about their content.
func TestHostileFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	tests := []struct {
		name   string
		change func(blob, manifest string) error
		want   string // in the error; "" where the model opens
	}{
		{"hard link", func(blob, _ string) error { return errors.Join(os.Rename(blob, blob+"-x"), os.Link(blob+"-x", blob)) }, ""},
		{"link out of the store", func(blob, _ string) error { return errors.Join(os.Rename(blob, outside), os.Symlink(outside, blob)) }, "symbolic link that leaves"},
		{"relative link out of the store", func(blob, manifest string) error {
			rel, err := filepath.Rel(filepath.Dir(blob), outside)
			return errors.Join(err, os.Remove(blob), os.Symlink(rel, blob))
		}, "symbolic link that leaves"},
		{"link inside the store", func(blob, _ string) error {
			return errors.Join(os.Rename(blob, blob+"-x"), os.Symlink(filepath.Base(blob)+"-x", blob))
		}, ""},
		{"link to another blob", func(blob, _ string) error {
			return errors.Join(os.Remove(blob), os.Symlink(tinyBlob, blob))
		}, "it has 128 bytes instead of the 8296 in the manifest"},
		{"a blob of no bytes", func(blob, _ string) error { return os.Truncate(blob, 0) }, "it has 0 bytes instead of the 8296 in the manifest; remove the file, since 'ollama pull' keeps a blob that is there"},
		{"dangling link", func(blob, _ string) error { return errors.Join(os.Remove(blob), os.Symlink("nothing", blob)) }, "does not exist"},
		{"link loop", func(blob, _ string) error {
			return errors.Join(os.Remove(blob), os.Symlink(filepath.Base(blob)+"-x", blob), os.Symlink(filepath.Base(blob), blob+"-x"))
		}, "loop"},
		{"FIFO", func(blob, _ string) error { return errors.Join(os.Remove(blob), syscall.Mkfifo(blob, 0o600)) }, "FIFO"},
		{"link to a device", func(blob, _ string) error {
			return errors.Join(os.Remove(blob), os.Symlink("/dev/zero", blob))
		}, "symbolic link that leaves"},
		{"manifest is a directory", func(_, manifest string) error { return errors.Join(os.Remove(manifest), os.Mkdir(manifest, 0o755)) }, "a directory"},
		{"manifest is a FIFO", func(_, manifest string) error {
			return errors.Join(os.Remove(manifest), syscall.Mkfifo(manifest, 0o600))
		}, "FIFO"},
		{"manifest is a link to another", func(_, manifest string) error {
			return errors.Join(os.Remove(manifest), os.Symlink("../packed-ok/latest", manifest))
		}, ""},
		{"manifest is a link out of the store", func(_, manifest string) error {
			return errors.Join(os.Rename(manifest, outside+"-m"), os.Symlink(outside+"-m", manifest))
		}, "symbolic link that leaves"},
		{"manifest too large", func(_, manifest string) error { return os.Truncate(manifest, maxManifest+1) }, "may have at most"},
		{"no blobs", func(blob, _ string) error { return os.RemoveAll(filepath.Dir(blob)) }, "not in an Ollama store"},
		{"blobs is a link", func(blob, _ string) error {
			dir := filepath.Dir(blob)
			return errors.Join(os.Rename(dir, outside+"-blobs"), os.Symlink(outside+"-blobs", dir))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := smallStore(t)
			t.Setenv("OLLAMA_MODELS", dir)
			blob := filepath.Join(dir, "blobs", controlBlob)
			if err := tt.change(blob, filepath.Join(dir, "manifests", defaultHost, defaultNamespace, "control", "latest")); err != nil {
				t.Fatal(err)
			}
			var err error
			testlimit.Return("opening", func() {
				var m *tensorfs.Model
				if m, err = OpenName("control", true); m != nil {
					m.Close()
				}
			})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestChangedBlob changes a blob while its model is open.
func TestChangedBlob(t *testing.T) {
	dir := smallStore(t)
	t.Setenv("OLLAMA_MODELS", dir)
	blob := filepath.Join(dir, "blobs", controlBlob)
	m, err := OpenName("control", true)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before := bytesOf(t, &m.Tensors[0])
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(blob, now, now); err != nil { // as Ollama does with a blob that it reuses
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, &m.Tensors[0]), before) {
		t.Error("a touched blob reads differently")
	}
	for name, change := range map[string]func() error{
		"truncated": func() error { return os.Truncate(blob, 100) },
		"overwritten at equal size": func() error {
			f, err := os.OpenFile(blob, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("xyz"), 8000)
			return errors.Join(err, f.Close())
		},
	} {
		b, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		m, err := OpenName("control", true)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := tensorfs.ReadFull(m.Tensors[0].Data, before, 0); !errors.Is(err, tensorfs.ErrChanged) {
			t.Errorf("reading a blob that is %s: %v", name, err)
		}
		if err := os.WriteFile(blob, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrunedBlob removes a blob while its model is open, as Ollama may.
func TestPrunedBlob(t *testing.T) {
	dir := smallStore(t)
	t.Setenv("OLLAMA_MODELS", dir)
	m, err := OpenName("control", true)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	bytesOf(t, &m.Tensors[0])
}

// TestRoom lowers the limit of open files below what a model needs.
func TestRoom(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 80
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	_, err := Open(filepath.Join(goldenStore, "manifests/registry.ollama.ai/library/tiny/bf16"))
	if !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "26 blobs") || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("error %v", err)
	}
}
