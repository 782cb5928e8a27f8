package jsonobj

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func parse(t testing.TB, text string) Object {
	t.Helper()
	o, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// keys returns the keys of an object.
func keys(o Object) []string {
	var all []string
	for k := range o.All() {
		all = append(all, k)
	}
	return all
}

// plainValue makes a slice of a list.
func plainValue(v any) any {
	if a, ok := v.(tensorfs.Array); ok {
		return slices.AppendSeq([]any{}, a.Values())
	}
	return v
}

const sample = ` {"b":[1, 2.5,[3]],"a":{"x":{"y":7},"n":null,"x.y":8},"s":"\u00e9\"NaN","inf":-Infinity,"list":[NaN,Infinity],
	"n":null,"t":true,"big":18446744073709551615,"huge":1e999,"f":1e-05,"neg":-0, "e" : { } , "l":[ ],"\u006bey":"\\","b":[9,[3 , {}]]} `

func TestObject(t *testing.T) {
	o := parse(t, sample)
	if got, want := strings.Join(keys(o), " "), "b a s inf list n t big huge f neg e l key"; got != want || o.Len() != 14 {
		t.Errorf("%d keys %q, want %q", o.Len(), got, want)
	}
	for path, want := range map[string]any{
		"b": []any{json.Number("9"), tensorfs.JSON("[3,{}]")}, "a.x.y": json.Number("7"), "a.x": tensorfs.JSON(`{"y":7}`), "s": `é"NaN`, "inf": "-Infinity",
		"list": []any{"NaN", "Infinity"}, "t": true, "n": nil, "a.n": nil, "nothing": nil, "a.nothing": nil, "s.x": nil, "b.x": nil, "f": json.Number("1e-05"),
		"e": tensorfs.JSON("{}"), "l": []any{}, "key": `\`, "e.x": nil, "": nil, ".": nil, "a.": nil,
	} {
		if got, ok := o.Lookup(path); !reflect.DeepEqual(plainValue(got), want) || ok != (want != nil) {
			t.Errorf("%s: %#v, %v, want %#v", path, got, ok, want)
		}
	}
	if got := o.Object("a").Value("x.y"); got != json.Number("8") {
		t.Errorf("a key with a dot: %#v", got)
	}
	if o.Has("n") || !o.Has("t") || o.Has("nothing") || !o.Has("e") {
		t.Error("Has is wrong about null, or about what is there")
	}
	var text []byte
	for _, m := range o.Meta(nil, "p.") {
		text = append(append(append(text, m.Key...), ' '), m.AppendJSON(nil)...)
		text = append(text, '\n')
	}
	const want = "p.b [9,[3,{}]]\np.a {\"x\":{\"y\":7},\"n\":null,\"x.y\":8}\np.s \"é\\\"NaN\"\np.inf \"-Infinity\"\np.list [\"NaN\",\"Infinity\"]\n" +
		"p.n null\np.t true\np.big 18446744073709551615\np.huge 1e999\np.f 0.00001\np.neg -0\np.e {}\np.l []\np.key \"\\\\\"\n"
	if string(text) != want {
		t.Errorf("metadata\n%s\nwant\n%s", text, want)
	}
}

func TestRaw(t *testing.T) {
	o := parse(t, `{"i":5,"f":5.0,"neg":-3,"half":0.5,"max":2147483647,"over":2147483648,"e":1e300,"s":"x\n","o":{"a":1,"a":2,"\u0062":3},"l":[1,"]",{"x":[]}],"n":null,"no":false,"d":`+strings.Repeat("9", 2*maxNumber)+`}`)
	for key, want := range map[string]any{"i": 5, "f": 5, "neg": -3, "half": nil, "max": 1<<31 - 1, "over": nil, "e": nil, "s": nil, "n": nil, "no": nil, "d": nil, "nothing": nil} {
		n, ok := o.Raw(key).Int()
		if ok != (want != nil) || ok && n != want {
			t.Errorf("%s: %d, %v, want %v", key, n, ok, want)
		}
	}
	kinds := ""
	for _, key := range []string{"i", "neg", "s", "o", "l", "n", "no"} {
		kinds += string(o.Raw(key).Kind())
	}
	if kinds != `00"{[nf` || o.Raw("nothing").Kind() != 0 {
		t.Errorf("kinds %q", kinds)
	}
	if o.Raw("s").Text() != "x\n" || o.Raw("i").Text() != "" {
		t.Error("Text is wrong")
	}
	if r := o.Raw("o"); r.Member("a").String() != "2" || r.Member("b").String() != "3" || r.Member("c").Kind() != 0 || o.Raw("l").Member("a").Kind() != 0 {
		t.Error("Member is wrong")
	}
	var list []string
	for e := range o.Raw("l").Elements() {
		list = append(list, e.String())
	}
	if !reflect.DeepEqual(list, []string{"1", `"]"`, `{"x":[]}`}) {
		t.Errorf("elements %q", list)
	}
	for range o.Raw("o").Elements() {
		t.Error("an object has elements")
	}
	if got, ok := o.Value("d").(json.Number); !ok || len(got) != 2*maxNumber {
		t.Errorf("%T", o.Value("d"))
	}
}

// TestManyKeys compares a large object with a map of it: repeated keys, escaped keys, and keys that
// look alike.
func TestManyKeys(t *testing.T) {
	for _, n := range []int{0, 1, few, few + 1, 100, MaxKeys} {
		var text strings.Builder
		want := make(map[string]string)
		var order []string
		for i := range 2 * n {
			key := fmt.Sprintf("k%d", i%n)
			if _, ok := want[key]; !ok {
				order = append(order, key)
			}
			want[key] = fmt.Sprint(i)
			if i%3 == 0 {
				key = `\u006b` + key[1:]
			}
			fmt.Fprintf(&text, `%s"%s" : %d`, map[bool]string{true: "{", false: " ,\n"}[i == 0], key, i)
		}
		if n == 0 {
			text.WriteByte('{')
		}
		o := parse(t, text.String()+"}")
		if got := keys(o); !reflect.DeepEqual(got, order) || o.Len() != n {
			t.Fatalf("%d keys: %d", n, len(got))
		}
		for k, v := range o.All() {
			if v.String() != want[k] || o.Raw(k).String() != want[k] {
				t.Fatalf("%d keys: %s is %s, want %s", n, k, v, want[k])
			}
		}
		if o.Raw("k").Kind() != 0 || o.Raw(fmt.Sprintf("k%d", n)).Kind() != 0 {
			t.Errorf("%d keys: one that is not there is found", n)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	var many strings.Builder
	for i := range MaxKeys + 1 {
		fmt.Fprintf(&many, `,"%d":1`, i)
	}
	for _, c := range []struct {
		text, want string
		offset     int64
	}{
		{"", "the text is empty", -1}, {" \n", "the text is empty", -1},
		{"[]", "its top value is not an object", -1}, {"5", "its top value is not an object", -1}, {"null", "its top value is not an object", -1},
		{"{", "cut off", -1}, {`{"a":`, "cut off", -1}, {`{"a":1`, "cut off", -1}, {`{"a":"x`, "cut off", -1}, {`{"a":tru`, "cut off", -1}, {`{"a":NaN,"b\`, "cut off", -1},
		{`{"a":1}x`, "something follows", 7}, {`{"a":1}{}`, "something follows", 7}, {`{"a":1},`, "something follows", 7}, {"{}\x00", "something follows", 2},
		{`{a:1}`, "invalid character 'a'", 1}, {`{"a":1,}`, "invalid character '}'", 7}, {`{"a":01}`, "invalid character '1'", 6}, {`{"a":nan}`, "invalid", 6}, {`{"a":-NaN}`, "invalid", -1}, {`{"a":1NaN}`, "invalid", -1},
		{`{"a":"` + "\xff" + `"}`, "UTF-8", 6}, {`{"a":"\ud800"}`, "invalid", 6}, {"{\"a\":\"\n\"}", "invalid character", 6}, {"\xef\xbb\xbf{}", "byte order mark of UTF-8", -1}, {"\xff\xfe{\x00", "byte order mark of UTF-16", -1},
		{strings.Repeat(`{"a":`, 100000), "depth", 50000}, {`{"a":` + strings.Repeat("[", 100000), "depth", 10004},
		{"{" + many.String()[1:] + "}", "it has 16385 keys", -1},
	} {
		_, err := Parse([]byte(c.text))
		s, ok := err.(*SyntaxError)
		if !ok || !strings.Contains(s.Problem, c.want) || strings.Contains(s.Problem, "\n") || s.Offset != c.offset {
			t.Errorf("%.20q: error %#v does not say %q at %d", c.text, err, c.want, c.offset)
		}
	}
}

// TestCost holds that no text costs more than a few times its size, for any question about it.
func TestCost(t *testing.T) {
	const size = 1 << 20
	// members returns members with short keys, each another.
	members := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return "{" + b.String() + `"":1}`
	}
	deep := strings.Repeat("[", 9000)
	for name, text := range map[string]string{
		"nested around a string": deep + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("]", 9000),
		"nested around numbers":  deep + strings.Repeat("1, ", size/3) + "1" + strings.Repeat("]", 9000),
		"short elements":         "[" + strings.Repeat("1,", size/2) + "1]",
		"short members":          "{" + strings.Repeat(`"":1,`, size/5) + `"":1}`,
		"keys":                   members(`"%x":1,`),
		"escaped keys":           members(`"\u006d%x":1,`),
		"a long number":          strings.Repeat("1", size),
		"a long escaped key":     `{"` + strings.Repeat(`\u0061`, size/6) + `":1}`,
		"nested objects":         strings.Repeat(`{"x":`, 9000) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("}", 9000),
	} {
		full := []byte(`{"x":` + text + `}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o, err := Parse(full)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			o.Lookup("x.x")
			o.Lookup("x.x.x.x")
		}
		o.Lookup("x")
		o.Meta(nil, "")
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes for %d", name, used, len(full))
		if used > 8*uint64(len(full)) {
			t.Errorf("%s: %d bytes are allocated for %d", name, used, len(full))
		}
	}
}

// FuzzParse compares with encoding/json what is accepted, and what it holds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":NaN}],"c":"\"Infinity","a":null}`))
	f.Add([]byte(sample))
	f.Add([]byte("{\"a\":{\"\\u0062\" :\r[ {} , []\t]}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		var want map[string]any
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %q", text, err)
			}
			return
		}
		clean := plain(text)
		d := json.NewDecoder(bytes.NewReader(clean))
		d.UseNumber() // of any size
		if err := d.Decode(&want); err != nil || len(want) != o.Len() {
			t.Fatalf("%q: %d keys, want %d, %v", text, o.Len(), len(want), err)
		}
		same := func(got []byte, v any) bool {
			var a any
			d := json.NewDecoder(bytes.NewReader(got))
			d.UseNumber()
			return d.Decode(&a) == nil && reflect.DeepEqual(a, v)
		}
		for k, v := range o.All() {
			w, ok := want[k]
			if !ok || !same([]byte(compact(v.String())), w) || o.Raw(k) != v || (Raw{o.table.text}).Member(k) != v {
				t.Fatalf("%q: key %q: %s, want %v", text, k, v, w)
			}
			sub, isObject := w.(map[string]any)
			if isObject != (v.Kind() == '{') || o.Object(k).Len() != len(sub) {
				t.Fatalf("%q: key %q: %d keys", text, k, o.Object(k).Len())
			}
			n := 0
			for range v.Elements() {
				n++
			}
			if list, _ := w.([]any); n != len(list) {
				t.Fatalf("%q: key %q: %d elements, want %d", text, k, n, len(list))
			}
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

func TestInner(t *testing.T) {
	o, err := Parse([]byte(`{"a":{},"b":5,"c":{"d":{"e":1}},"f":{"g":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	for want, paths := range map[string][]string{"c.d": {"a", "b", "none", "c.d", "f"}, "f": {"f.g", "f", "c"}, "": {"a", "b", "c.e"}} {
		if path, inner := o.Inner(paths); path != want || (inner.Len() > 0) != (want != "") {
			t.Errorf("%q of %q, want %q", path, paths, want)
		}
	}
}
