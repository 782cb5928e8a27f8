package jsonobj

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func TestObject(t *testing.T) {
	o, err := Parse([]byte(` {"b":[1, 2.5,[3]],"a":{"x":{"y":7},"n":null,"x.y":8},"s":"\u00e9\"NaN","inf":-Infinity,"list":[NaN,Infinity],
		"n":null,"t":true,"big":18446744073709551615,"huge":1e999,"f":1e-05,"neg":-0,"b":[9,[3,{}]]} `))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(o.Keys(), " "), "b a s inf list n t big huge f neg"; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	for path, want := range map[string]any{
		"b": []any{json.Number("9"), tensorfs.JSON("[3,{}]")}, "a.x.y": json.Number("7"), "a.x": tensorfs.JSON(`{"y":7}`), "s": `é"NaN`, "inf": "-Infinity",
		"list": []any{"NaN", "Infinity"}, "t": true, "n": nil, "a.n": nil, "nothing": nil, "a.nothing": nil, "s.x": nil, "b.x": nil, "f": json.Number("1e-05"),
	} {
		if got, ok := o.Lookup(path); !reflect.DeepEqual(got, want) || ok != (want != nil) {
			t.Errorf("%s: %#v, %v, want %#v", path, got, ok, want)
		}
	}
	if got := o.Object("a").Value("x.y"); got != json.Number("8") {
		t.Errorf("a key with a dot: %#v", got)
	}
	var text []byte
	for _, m := range o.Meta(nil, "p.") {
		text = append(append(append(text, m.Key...), ' '), m.AppendJSON(nil)...)
		text = append(text, '\n')
	}
	const want = "p.b [9,[3,{}]]\np.a {\"x\":{\"y\":7},\"n\":null,\"x.y\":8}\np.s \"é\\\"NaN\"\np.inf \"-Infinity\"\np.list [\"NaN\",\"Infinity\"]\n" +
		"p.n null\np.t true\np.big 18446744073709551615\np.huge 1e999\np.f 0.00001\np.neg -0\n"
	if string(text) != want {
		t.Errorf("metadata\n%s\nwant\n%s", text, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", " ", "[]", "5", "null", "{", `{"a":`, `{"a":1`, `{"a":1}x`, `{"a":1}{}`, `{a:1}`, `{"a":01}`, `{"a":"` + "\xff" + `"}`, `{"a":nan}`,
		strings.Repeat(`{"a":`, 100000), "\xef\xbb\xbf{}"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.20q passes", text)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %q has more than one line", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":NaN}],"c":"\"Infinity","a":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		if err != nil {
			return
		}
		for _, m := range o.Meta(nil, "") {
			if j := m.AppendJSON(nil); !json.Valid(j) {
				t.Fatalf("%q: metadata %q", text, j)
			}
			if v, ok := o.Lookup(m.Key); ok && v == nil {
				t.Fatalf("%q: key %q", text, m.Key)
			}
		}
	})
}
