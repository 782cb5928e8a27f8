package formats_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

const store = "../testdata/ollama/models"

// files of a model of one tensor, by what they are.
var (
	ggufFile   = testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "output_norm.weight", Shape: []int64{4}, Type: 0, Data: make([]byte, 16)}}}.Bytes()
	tensorFile = testmodel.Safetensors([]testmodel.SafeTensor{{Name: "model.norm.weight", DType: tensorfs.F16, Shape: []int64{4}}}, nil)
)

// tempFiles makes a directory of files and of links ("->TARGET").
func tempFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// open opens a model, at little cost and without waiting.
func open(t *testing.T, path string) (m *tensorfs.Model, err error) {
	t.Helper()
	testlimit.Return("opening "+path, func() {
		if n := testlimit.Allocated(func() { m, err = formats.Open(path) }); n > 16<<20 {
			t.Errorf("it allocates %d bytes", n)
		}
	})
	if m != nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

// refused holds that an error is one clear line that contains all of these texts.
func refused(t *testing.T, m *tensorfs.Model, err error, kind error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("opened as %s with %d tensors", m.Format, len(m.Tensors))
	}
	text := err.Error()
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("error %q does not say %q", text, s)
		}
	}
	if strings.ContainsAny(text, "\n\x1b") || len(text) > 700 || !errors.Is(err, kind) {
		t.Errorf("error %q is not a clear line, or not %v", text, kind)
	}
	// One piece of advice, which comes last.
	if n := strings.Count(text, "name "); n > 2 || strings.HasSuffix(text, "file does not exist") || strings.HasSuffix(text, "permission denied") {
		t.Errorf("error %q says something twice", text)
	}
}

// TestContentFirst holds that names of files decide only if their content does not.
func TestContentFirst(t *testing.T) {
	g, s := string(ggufFile), string(tensorFile)
	dir := tempFiles(t, map[string]string{
		"a.gguf": g, "b.safetensors": g, "plain-gguf": g, "c.json": g, "d.bin": g, "g-link": "->b.safetensors",
		"m.safetensors": s, "n.gguf": s, "plain-tensors": s, "config.json.x": s, "s-link": "->n.gguf",
		"text.gguf": "hello world", "text.safetensors": "\x05\x00\x00\x00\x00\x00\x00\x00hello world", "text": "hello world\x1b", "empty": "", "empty.gguf": "", "empty.safetensors": "",
		"short": "GG", "lower": "gguf0000", "old": "tjgg0000",
		"lfs.gguf": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "lfs.safetensors": "version https://git-lfs.github.com/spec/v1\n",
		"page.safetensors": "<!DOCTYPE html><html>", "pytorch_model.bin": "PK\x03\x04" + strings.Repeat("\x00", 22) + "\x10\x00\x00\x00archive/data.pkl", "old.pt": "\x80\x02}q",
	})
	for name, format := range map[string]string{
		"a.gguf": "gguf", "b.safetensors": "gguf", "plain-gguf": "gguf", "c.json": "gguf", "d.bin": "gguf", "g-link": "gguf", "plain-gguf/": "gguf",
		"m.safetensors": "safetensors", "n.gguf": "safetensors", "plain-tensors": "safetensors", "config.json.x": "safetensors", "s-link": "safetensors",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if m.Format != format || len(m.Tensors) != 1 {
				t.Errorf("opened as %s with %d tensors, want %s", m.Format, len(m.Tensors), format)
			}
		})
	}
	const looked = `looked for GGUF (starts with "GGUF"), safetensors (header length and JSON) and an Ollama manifest; found `
	for name, want := range map[string]struct {
		kind error
		says string
	}{
		"text.gguf":         {tensorfs.ErrUnsupported, `it is a text ("hello world"), not the file; fetch the file again`},
		"text.safetensors":  {tensorfs.ErrFormat, "text.safetensors: "},
		"text":              {tensorfs.ErrUnsupported, looked + `12 bytes starting with "hello world\x1b"`},
		"empty":             {tensorfs.ErrUnsupported, looked + "an empty file"},
		"empty.gguf":        {tensorfs.ErrFormat, "it has 0 bytes"},
		"empty.safetensors": {tensorfs.ErrFormat, "a file of 0 bytes"},
		"short":             {tensorfs.ErrUnsupported, looked + `2 bytes starting with "GG"`},
		"lower":             {tensorfs.ErrFormat, "in lower case"},
		"old":               {tensorfs.ErrUnsupported, "from before GGUF"},
		"lfs.gguf":          {tensorfs.ErrUnsupported, `Git LFS pointer, not the file itself; fetch the file with "git lfs pull"`},
		"lfs.safetensors":   {tensorfs.ErrUnsupported, "Git LFS pointer"},
		"page.safetensors":  {tensorfs.ErrUnsupported, "a web page"},
		"pytorch_model.bin": {tensorfs.ErrUnsupported, "it is a ZIP archive as PyTorch writes its models; save the model as safetensors first, with transformers' save_pretrained(DIR, safe_serialization=True)"},
		"old.pt":            {tensorfs.ErrUnsupported, "it is a Python pickle, as PyTorch writes its models; save the model as safetensors first"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, filepath.Join(dir, name))
			refused(t, m, err, want.kind, filepath.Join(dir, name)+": ", want.says)
		})
	}
}

// TestDirectories opens directories with and without a model.
func TestDirectories(t *testing.T) {
	g, s := string(ggufFile), string(tensorFile)
	const snapshot = "models--org--name/snapshots/c1/"
	dir := tempFiles(t, map[string]string{
		"hf/config.json": `{"model_type":"llama"}`, "hf/model.safetensors": s, "hf/x.gguf": g, "hf/tokenizer.json": "{}", "hf/model.safetensors.index.json": `{"weight_map":{"model.norm.weight":"model.safetensors"}}`,
		"bare/model.safetensors": s, "one/a.gguf": g, "two/a.gguf": g, "two/b.gguf": g, "two/readme": "", "junk/readme": "", "junk/data.json": "{}",
		"lost/config.json": "{}", "lfs/config.json": "{}", "lfs/model.safetensors": "version https://git-lfs.github.com/spec/v1\n",
		"hub/models--org--name/refs/main": "c1", "hub/models--org--name/blobs/1": s, "hub/models--org--name/blobs/2": `{"model_type":"llama"}`,
		"hub/" + snapshot + "model.safetensors": "->../../blobs/1", "hub/" + snapshot + "config.json": "->../../blobs/2",
		"links/model.safetensors": "->../bare/model.safetensors", "links/config.json": "->../hf/config.json", "dir-link": "->hf",
		"ollama/manifests/x": "", "ollama/blobs/x": "",
	})
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, want := range map[string]string{
		"hf": "llama", "hf/": "llama", "hf/.": "llama", "dir-link": "llama", "bare": "unknown", "links": "llama", "hub/models--org--name": "llama", "hub/" + snapshot: "llama",
		"hub/" + snapshot + "model.safetensors": "llama", "hf/model.safetensors": "llama",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, dir+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			if m.Format != "huggingface" || m.Architecture != want || m.Path != filepath.Clean(at(name)) {
				t.Errorf("%s of architecture %s at %s", m.Format, m.Architecture, m.Path)
			}
		})
	}
	for name, says := range map[string]string{
		"two":                             "it has 2 GGUF models: a.gguf, b.gguf; name one, such as " + at("two/a.gguf"),
		"empty":                           "it is an empty directory; name a GGUF or safetensors file, a model directory or an Ollama manifest",
		"junk":                            "it has no safetensors and no GGUF file among its 2 entries; name a GGUF",
		"lost":                            "the directory has no model.safetensors",
		"hub":                             "it is a Hugging Face cache, not a model; name one of its models as hf:ORG/NAME, or its folder, such as " + at("hub/models--org--name"),
		"ollama":                          "it is an Ollama store; name a model of it as ollama:NAME with OLLAMA_MODELS=" + at("ollama"),
		"hf/config.json":                  "it is part of a model, not the model; name its directory " + at("hf"),
		"hf/model.safetensors.index.json": "it is part of a model, not the model; name its directory " + at("hf"),
		"hf/tokenizer.json":               "it is part of a model, not the model; name its directory " + at("hf"),
		"junk/data.json":                  `found 2 bytes starting with "{}"`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, at(name))
			refused(t, m, err, tensorfs.ErrUnsupported, at(name)+": ", says)
		})
	}
	m, err := open(t, at("lfs"))
	refused(t, m, err, tensorfs.ErrFormat, at("lfs/model.safetensors"), "Git LFS pointer")
	// A path that is relative, of the directory that is left later.
	t.Chdir(at("hf"))
	for _, path := range []string{".", "model.safetensors", "../hf"} {
		if m, err := open(t, path); err != nil || !filepath.IsAbs(m.Path) {
			t.Errorf("%s: %+v, %v", path, m, err)
		}
	}
}

// TestNoFiles opens paths that are not files, or are no longer files. Nothing blocks.
func TestNoFiles(t *testing.T) {
	dir := tempFiles(t, map[string]string{
		"loop1": "->loop2", "loop2": "->loop1", "dangling": "->gone.gguf", "dangling2": "->dangling", "device": "->/dev/zero", "file": string(ggufFile),
		"model/config.json": "{}", "model/model.safetensors": "->../gone", "looped/config.json": "->config.json", "looped/model.safetensors": string(tensorFile),
		"index/model.safetensors.index.json": "->../fifo", "tty/config.json": "->/dev/zero", "tty/model.safetensors": string(tensorFile),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("fifo"), 0o666), syscall.Mkfifo(at("fifo.gguf"), 0o666), os.Mkdir(at("pipes"), 0o777),
		syscall.Mkfifo(at("pipes/config.json"), 0o666), os.WriteFile(at("pipes/model.safetensors"), tensorFile, 0o666)); err != nil {
		t.Fatal(err)
	}
	// A socket's path is short, so it is made by a relative one.
	t.Chdir(dir)
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]struct {
		kind error
		says string
	}{
		"fifo":      {tensorfs.ErrFormat, "it is a FIFO, not a regular file"},
		"fifo.gguf": {tensorfs.ErrFormat, "it is a FIFO, not a regular file"},
		"socket":    {tensorfs.ErrFormat, "it is a socket, not a regular file"},
		"device":    {tensorfs.ErrFormat, "it is a device, not a regular file"},
		"loop1":     {syscall.ELOOP, "its symbolic links form a loop; name the file itself"},
		"dangling":  {fs.ErrNotExist, `it is a symbolic link to "gone.gguf", which does not exist; fetch the file that it leads to`},
		"dangling2": {fs.ErrNotExist, `it is a symbolic link to "dangling", which does not exist`},
		"nothing":   {fs.ErrNotExist, "no such file or directory; check the path (models in a store are named ollama:NAME or hf:ORG/NAME)"},
		"no/thing":  {fs.ErrNotExist, "no such file or directory"},
		"file/x":    {syscall.ENOTDIR, "a parent of it is not a directory; check the path"},
		"new\nline": {fs.ErrNotExist, `new\nline": no such file`},
		"model":     {tensorfs.ErrFormat, `model.safetensors: it is a link to "../gone", which does not exist; finish the download`},
		"looped":    {syscall.ELOOP, "looped/config.json: "},
		"index":     {tensorfs.ErrFormat, "model.safetensors.index.json: it is a FIFO, not a regular file"},
		"tty":       {tensorfs.ErrFormat, "config.json: it is a device, not a regular file"},
		"pipes":     {tensorfs.ErrFormat, "config.json: it is a FIFO, not a regular file"},

		strings.Repeat("x", 300): {syscall.ENAMETOOLONG, "its name is longer than file names can be; check the path"},
	} {
		t.Run(name[:min(len(name), 20)], func(t *testing.T) {
			m, err := open(t, at(name))
			refused(t, m, err, want.kind, want.says)
		})
	}
	m, err := open(t, "")
	if err == nil || m != nil || err.Error() != "the model's path is empty; name a file, a directory, ollama:NAME or hf:ORG/NAME" {
		t.Errorf("no path at all: %v", err)
	}
}

// TestNames opens models by names in stores, good and bad.
func TestNames(t *testing.T) {
	hub := tempFiles(t, map[string]string{
		"models--Org--Name/refs/main": "c1", "models--Org--Name/snapshots/c1/config.json": `{"model_type":"llama"}`, "models--Org--Name/snapshots/c1/model.safetensors": string(tensorFile),
		"models--gpt2/snapshots/c1/model.safetensors": string(tensorFile), "models--org--none/refs/main": "c1", "datasets--org--x/refs/main": "c1",
	})
	abs, err := filepath.Abs(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_CACHE", hub)
	t.Setenv("OLLAMA_MODELS", abs)
	for name, format := range map[string]string{"hf:Org/Name": "huggingface", "hf:Org/Name@c1": "huggingface", "hf:gpt2": "huggingface", "ollama:tiny:bf16": "ollama"} {
		t.Run(name, func(t *testing.T) {
			m, err := open(t, name)
			if err != nil {
				t.Fatal(err)
			}
			if m.Format != format {
				t.Errorf("opened as %s", m.Format)
			}
		})
	}
	const form = "the name is not of the form ORG/NAME, ORG/NAME/FILE or ORG/NAME@REVISION:WORD; write it as the hub does"
	for name, want := range map[string]struct {
		kind error // any if nil
		says string
	}{
		"hf:":                         {nil, "hf: it names all models of the cache, not one; tensorfs list hf: shows their names"},
		"hf:a/b/../c":                 {nil, "hf:a/b/../c: " + form},
		"hf:../x":                     {nil, form},
		"hf:/etc/passwd":              {nil, "a path has no hf: before it: /etc/passwd"},
		"hf:a--b":                     {nil, form},
		"hf:org/name@":                {nil, form},
		"hf:o\x1brg/name":             {nil, `"hf:o\x1brg/name": ` + form},
		"hf:org/absent":               {fs.ErrNotExist, "hf:org/absent: it is not in the cache " + hub + `; download it with "hf download org/absent", or set HF_HOME to the directory that contains it`},
		"hf:org/name":                 {fs.ErrNotExist, "hf:org/name: it is not in the cache " + hub + "; write it as hf:Org/Name"},
		"hf:org/none":                 {fs.ErrNotExist, `hf:org/none: it has no snapshot; download it with "hf download org/none"`},
		"hf:gpt2@c9":                  {fs.ErrNotExist, `hf:gpt2@c9: the cache does not have this revision, only c1; did you mean hf:gpt2@c1? If not, download it with "hf download gpt2 --revision c9"`},
		"hf:" + long:                  {nil, "hf:"},
		"ollama:":                     {tensorfs.ErrFormat, "ollama: it names all models of the store, not one; tensorfs list ollama: shows their names"},
		"ollama:absent":               {fs.ErrNotExist, "ollama:absent:latest: there is no such model in " + abs + ` (OLLAMA_MODELS); fetch it with "ollama pull absent:latest", or set OLLAMA_MODELS`},
		"ollama:tiny:absent":          {fs.ErrNotExist, "ollama:tiny:absent: tiny has the tags bf16, "},
		"ollama:tini:bf16":            {fs.ErrNotExist, "did you mean ollama:tiny:bf16?"},
		"ollama:../../etc/passwd":     {tensorfs.ErrFormat, "not allowed there"},
		"ollama:a b":                  {tensorfs.ErrFormat, `the model "a b" has a byte ' ' that is not allowed there`},
		"ollama:x:":                   {tensorfs.ErrFormat, "the tag is empty"},
		"ollama:x@sha256:00":          {tensorfs.ErrFormat, "not allowed there"},
		"ollama:a\nb":                 {tensorfs.ErrFormat, `"ollama:a\nb": `},
		"ollama:" + long:              {tensorfs.ErrFormat, "the model has 300 bytes, at most 80 are allowed"},
		"https://example.com/org/m":   {fs.ErrNotExist, `https://example.com/org/m: it is a URL, and this program opens only models of this machine; fetch the model with "hf download" or "ollama pull", then name it hf:ORG/NAME`},
		"OLLAMA:tiny":                 {fs.ErrNotExist, "did you mean ollama:tiny?"},
		"nobody/nothing:Q4_K_M":       {fs.ErrNotExist, "did you mean hf:nobody/nothing:Q4_K_M?"},
		"huggingface:nobody/nothing":  {fs.ErrNotExist, "did you mean hf:nobody/nothing?"},
		"huggingface.co/org/none":     {fs.ErrNotExist, "did you mean hf:org/none?"},
		"gguf:opne.go":                {fs.ErrNotExist, "/open.go?"},
		"./nobody/nothing":            {fs.ErrNotExist, "models in a store are named ollama:NAME or hf:ORG/NAME"},
		"nobody/model.gguf":           {fs.ErrNotExist, "models in a store are named ollama:NAME or hf:ORG/NAME"},
		"-":                           {fs.ErrNotExist, "-: models are not read from a pipe; write it to a file, and name that"},
		"registry.ollama.ai/lib/tiny": {fs.ErrNotExist, "did you mean ollama:lib/tiny?"},
	} {
		t.Run(name[:min(len(name), 30)], func(t *testing.T) {
			m, err := open(t, name)
			kind := want.kind
			if kind == nil {
				kind = err
			}
			refused(t, m, err, kind, want.says)
		})
	}
	t.Setenv("HF_HUB_CACHE", filepath.Join(hub, "nowhere"))
	t.Setenv("OLLAMA_MODELS", filepath.Join(hub, "nowhere"))
	m, err := open(t, "hf:org/name")
	refused(t, m, err, fs.ErrNotExist, fmt.Sprintf(`there is no cache %s; download it with "hf download org/name", or set HF_HOME`, filepath.Join(hub, "nowhere")))
	m, err = open(t, "ollama:tiny")
	refused(t, m, err, fs.ErrNotExist, "there is no such model in "+filepath.Join(hub, "nowhere"))
}

// long is a name that is too long for a file.
var long = strings.Repeat("x", 300)
