package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testoptions"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// notAttributes are the fields of models.Options that no attribute sets, with the reasons.
var notAttributes = map[string]string{
	"Files":   "how files are read: secrets, the cache and --local decide it",
	"Library": "a volume shows one model",
	"Top":     "a volume shows one model",
}

// TestEveryOption holds that each field of models.Options is an attribute, or named with the reason that it is not.
func TestEveryOption(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{}
	for _, a := range attributeTable {
		flags[a.flag] = true
	}
	o := reflect.TypeFor[models.Options]()
	for i := range o.NumField() {
		name := o.Field(i).Name
		if is := flags[strings.ToLower(name)]; is == (notAttributes[name] != "") && name != "Convert" {
			t.Errorf("models.Options.%s: an attribute %v, and the reason that it is not: %q", name, is, notAttributes[name])
		}
	}
	for flag := range new(models.Convert).Fields() {
		if a := attributeTable[attributeName(flag)]; a.flag != flag {
			t.Errorf("--%s has no attribute", flag)
		}
	}
}

// ofOptions are the attributes for a line of a table of options.
func ofOptions(c testoptions.Case) attrs {
	a := attrs{"model": c.Model}
	for _, o := range c.Options {
		flag, value, given := strings.Cut(o, "=")
		name := attributeName(flag)
		if !given {
			value = "true"
		}
		a[name] = strings.TrimPrefix(a[name]+"\n"+value, "\n")
	}
	return a
}

// TestOptions: an option of the commands is an attribute that gives the same bytes.
func TestOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--local=/")
	for _, c := range testoptions.Cases(t) {
		m, err := models.Open(c.Model, models.Options{Convert: c.Convert(t)})
		must(t, err)
		want := testoptions.Read(t, m, c.File)
		must(t, m.Close())
		a := ofOptions(c)
		r.mustPublish(a, nil, "pod")
		if got, err := os.ReadFile(filepath.Join(r.target("pod"), c.File)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %s has %d other bytes, %v", a, c.File, len(got), err)
		}
		r.mustUnpublish("pod")
	}
	for _, c := range testoptions.Wrongs(t)[:2] { // the other messages are the command's too
		err := r.publish("pod", ofOptions(c.Case), nil)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.Message) {
			t.Errorf("%q: %v, want %s", c.Options, err, c.Message)
		}
		r.mustUnpublish("pod")
	}
	r.mustBeClean()
}

// Options that name files name them below --local.
func TestFilesOfOptions(t *testing.T) {
	t.Parallel()
	local, outside := strangersTree(t, map[string]string{"outside/m": "", "local/m": "", "local/out": "->../outside", "local/in": "->m", "local/line": "->a\nb", "local/a\nb": ""})
	for _, c := range []struct{ attribute, value, want string }{ // L means local, O means outside; "" if it is refused
		{"imatrix", "L/in", "L/m"}, {"imatrix", "O/m", ""}, {"imatrix", "L/out/m", ""}, {"imatrix", "hf:o/n", ""}, {"imatrix", "m", ""}, {"imatrix", "none", ""}, {"imatrix", "-m", ""},
		{"tensorTypesFrom", "L/in", "L/m"}, {"tensorTypesFrom", "O/m", ""}, {"tensorTypesFrom", "hf:o/n", "hf:o/n"}, {"tensorTypesFrom", "x", ""},
		{"mmproj", "none", "none"}, {"mmproj", "L/in", "L/m"}, {"mmproj", "L/out/m", ""}, {"mmproj", "hf:o/n", ""}, {"mmproj", "./none", ""},
		{"set", "a=b", "a=b"}, {"set", "a=@L/in", "a=@L/m"}, {"set", "a=@O/m", ""}, {"set", "a=b\n\nc=@O/m", ""}, {"set", "a=b\nc=@L/in\n", "a=b\nc=@L/m"}, {"set", "a=b=@O/m", "a=b=@O/m"}, {"set", "a", "a"}, {"set", "a=@L/line", ""},
		{"unset", "a\nb\n", "a\nb"}, {"tensorType", "a=q8_0\nb{1,2}=f16", "a=q8_0\nb{1,2}=f16"}, {"dequantise", "true", "true"}, {"dequantise", "false", ""}, {"pure", "1", ""},
	} {
		fill := strings.NewReplacer("L", local, "O", outside).Replace
		a, err := readAttributes(map[string]string{"model": local + "/m", c.attribute: fill(c.value)}, local)
		if want := fill(c.want); a[c.attribute] != want || (err == nil) != (want != "" || c.value == "false") {
			t.Errorf("%s %q: %q, %v; want %q", c.attribute, c.value, a[c.attribute], err, want)
		}
	}
}
