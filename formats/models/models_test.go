package models_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testoptions"
)

const (
	testdata = "../../testdata/"
	q8       = testdata + "gguf/llama-xs.q8_0.gguf"
	f16      = testdata + "gguf/llama-xs.f16.gguf"
)

func opened(t *testing.T, name string, o models.Options) *models.Model {
	t.Helper()
	m, err := models.Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestOptions: each option changes the file that it is about.
func TestOptions(t *testing.T) {
	asked := map[string]bool{}
	for _, c := range testoptions.Cases(t) {
		t.Run(filepath.Base(c.Model)+" "+strings.Join(c.Options, " "), func(t *testing.T) {
			with := testoptions.Read(t, opened(t, c.Model, models.Options{Convert: c.Convert(t)}), c.File)
			plain := opened(t, c.Model, models.Options{})
			if _, err := tensorfs.Find(plain.Tree().Root, c.File); err == nil && bytes.Equal(with, testoptions.Read(t, plain, c.File)) {
				t.Errorf("%s is as it is without", c.File)
			}
		})
		for _, o := range c.Options {
			name, _, _ := strings.Cut(o, "=")
			asked[name] = true
		}
	}
	for name := range new(models.Convert).Fields() {
		if !asked[name] {
			t.Errorf("no line of options.tsv has %s", name)
		}
	}
}

// TestFields: every field has a name, so that flags, C and Python reach it.
func TestFields(t *testing.T) {
	var c models.Convert
	fields := c.Fields()
	if n := reflect.TypeFor[models.Convert]().NumField(); len(fields) != n {
		t.Errorf("%d names of %d fields", len(fields), n)
	}
	seen := map[any]string{}
	for name, to := range fields {
		if seen[to] != "" {
			t.Errorf("%s is %s", name, seen[to])
		}
		seen[to] = name
	}
}

// ofPrograms are the fields of Options that no user of another language sets, with the reasons.
var ofPrograms = map[string]string{
	"Files":   "the loader finds files, by its own options about servers and the cache",
	"Library": "the loader opens one model",
	"Top":     "the loader opens one model",
}

// TestOtherLanguages: every option is one of the C interface and of Python's open, or has a reason not to be.
func TestOtherLanguages(t *testing.T) {
	between := func(path, begin, end string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), begin)
		part, _, ok := strings.Cut(rest, end)
		if !ok {
			t.Fatalf("%s has no %s", path, begin)
		}
		return part
	}
	inC := between("../../metal/capi/tensorfs.h", "typedef struct tensorfs_open_options {", "} tensorfs_open_options;")
	inPython := between("../../python/tensorfs/__init__.py", "def open(", ") ->")
	has := func(name, c string) bool {
		return strings.Contains(inC, c) && strings.Contains(inPython, " "+strings.ReplaceAll(name, "-", "_")+":")
	}
	o := reflect.TypeFor[models.Options]()
	for i := range o.NumField() {
		name := strings.ToLower(o.Field(i).Name)
		if reason := ofPrograms[o.Field(i).Name]; name != "convert" && has(name, name+";") == (reason != "") {
			t.Errorf("Options.%s: in C and in Python, or the reason %q", o.Field(i).Name, reason)
		}
	}
	for name := range new(models.Convert).Fields() {
		if !has(name, `"`+name) {
			t.Errorf("--%s is not in C and in Python", name)
		}
	}
}

func TestWrong(t *testing.T) {
	for _, c := range testoptions.Wrongs(t) {
		m, err := models.Open(c.Model, models.Options{Convert: c.Convert(t)})
		if err == nil {
			m.Close()
			t.Errorf("%q is taken", c.Options)
			continue
		}
		if errors.Is(err, models.ErrOption) != c.Always || !strings.HasPrefix(err.Error(), c.Message) {
			t.Errorf("%q: %v, want %s", c.Options, err, c.Message)
		}
	}
}

func TestTake(t *testing.T) {
	for text, want := range map[string]string{
		"gguf_type=q4_0": `"gguf_type" is not an option of a model; did you mean gguf-type?`, "x": `"x" is not an option of a model; there are dequantise, gguf-type, `, "": `"" is not an option`,
		"gguf-type": "--gguf-type: it wants a value", "set": "--set: it wants a value", "pure=yes": `--pure "yes": want true or false`,
	} {
		var c models.Convert
		if err := c.Take(text); !errors.Is(err, models.ErrOption) || !strings.HasPrefix(err.Error(), want) || !reflect.DeepEqual(c, models.Convert{}) {
			t.Errorf("%s: %v, %+v", text, err, c)
		}
	}
	var c models.Convert
	for _, text := range []string{"pure", "requantise=true", "dequantise=1", "pure=false", "set=a=b=c", "set=d=", "gguf-type=x", "gguf-type=y"} {
		if err := c.Take(text); err != nil {
			t.Error(err)
		}
	}
	if want := (models.Convert{GGUFType: "y", Requantise: true, Dequantise: true, Set: []string{"a=b=c", "d="}}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
}

// TestListsStay: the caller's lists of names are not modified, and their paths are relative to the
// working directory.
func TestListsStay(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(template, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := filepath.Abs(f16)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(template))
	o := models.Options{Convert: models.Convert{Set: []string{"tokenizer.chat_template=@template"}}}
	if got := testoptions.Read(t, opened(t, model, o), "hf/chat_template.jinja"); string(got) != "new" || o.Set[0] != "tokenizer.chat_template=@template" {
		t.Errorf("%s, %q", got, o.Set)
	}
	o = models.Options{LoRA: []string{"none:0.5"}}
	if _, err := models.Open(model, o); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "--lora: "+filepath.Dir(template)) || o.LoRA[0] != "none:0.5" {
		t.Errorf("%v, %q", err, o.LoRA)
	}
}

// TestSecrets: an error has nothing of an address that only its user may see, whatever was named
// by it.
func TestSecrets(t *testing.T) {
	const address = "https://user:S3CRET@127.0.0.1:1/m.gguf?sig=S3CRET#S3CRET"
	for _, x := range []struct {
		name string
		o    models.Options
	}{
		{address, models.Options{}},
		{"https://u:S3CRET pw@h/m", models.Options{}},
		{f16, models.Options{LoRA: []string{address}}},
		{f16, models.Options{LoRA: []string{address + ":0.5"}}},
		{f16, models.Options{Convert: models.Convert{GGUFType: "q4_0", Imatrix: address}}},
		{f16, models.Options{Convert: models.Convert{Set: []string{"general.name=@" + address}}}},
	} {
		m, err := models.Open(x.name, x.o)
		if err == nil {
			m.Close()
			t.Errorf("%s is a model", x.name)
		} else if strings.Contains(err.Error(), "S3CRET") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %+v: %v", x.name, x.o, err)
		}
	}
}

// TestSeveral: a folder of models is not a model, unless its top is meant.
func TestSeveral(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a.gguf", "below/b.gguf"} {
		at := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := models.Open(dir, models.Options{}); err == nil || !strings.Contains(err.Error(), "a folder with 2 models") {
		t.Error(err)
	}
	opened(t, dir, models.Options{Top: true})

	// Of a library each is opened, also one that the options change nothing of.
	l, err := library.Open(dir, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range l.Now().Models {
		m, err := models.OpenListed(listed, models.Options{Convert: models.Convert{GGUFType: "q4_0", Mmproj: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := testoptions.Read(t, m, "gguf/model.gguf"); !bytes.Equal(got, b) {
			t.Error("another file")
		}
		if why := strings.Join(m.Tree().WholeFiles("hf").Notes, " ") + m.Tree().WholeFiles("hf").Left["vision"]; !strings.Contains(why, "x is for a single model") {
			t.Errorf("%q", why)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOf asks options of a model that is open, which it closes with the rest, also on error.
func TestOf(t *testing.T) {
	closed := 0
	open := func() *tensorfs.Model {
		m, err := formats.Open(f16)
		if err != nil {
			t.Fatal(err)
		}
		m.Own(closer(func() error { closed++; return nil }))
		return m
	}
	m, err := models.Of(open(), models.Options{Convert: models.Convert{GGUFType: "q8_0"}})
	if err != nil {
		t.Fatal(err)
	}
	want := testoptions.Read(t, opened(t, f16, models.Options{Convert: models.Convert{GGUFType: "q8_0"}}), "gguf/model.gguf")
	if !bytes.Equal(testoptions.Read(t, m, "gguf/model.gguf"), want) {
		t.Error("another file than that of Open")
	}
	if err := m.Close(); err != nil || closed != 1 {
		t.Errorf("%v, closed %d times", err, closed)
	}
	for i, o := range []models.Options{{I2S: "x"}, {LoRA: []string{"none"}}, {Convert: models.Convert{GGUFType: "f16"}}} {
		if _, err := models.Of(open(), o); err == nil || closed != i+2 {
			t.Errorf("%+v: %v, closed %d times", o, err, closed)
		}
	}
}

type closer func() error

func (c closer) Close() error { return c() }
