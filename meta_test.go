package tensorfs

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// list is an Array for tests.
type list []any

func (l list) Len() int              { return len(l) }
func (l list) Values() iter.Seq[any] { return slices.Values(l) }

func TestMeta(t *testing.T) {
	for _, test := range []struct {
		name       string
		value      any
		json, text string
	}{
		{"false", false, `false`, "false\n"},
		{"true", true, `true`, "true\n"},
		{"uint8", uint8(255), `255`, "255\n"},
		{"uint16", uint16(65535), `65535`, "65535\n"},
		{"uint32", uint32(math.MaxUint32), `4294967295`, "4294967295\n"},
		{"uint64", uint64(math.MaxUint64), `18446744073709551615`, "18446744073709551615\n"},
		{"int8", int8(-128), `-128`, "-128\n"},
		{"int16", int16(-32768), `-32768`, "-32768\n"},
		{"int32", int32(math.MinInt32), `-2147483648`, "-2147483648\n"},
		{"int64", int64(math.MinInt64), `-9223372036854775808`, "-9223372036854775808\n"},
		{"int", 0, `0`, "0\n"},
		{"float32", float32(0.1), `0.1`, "0.1\n"},
		{"float32 whole", float32(10000), `10000`, "10000\n"},
		{"float32 smallest", float32(math.SmallestNonzeroFloat32), `1e-45`, "1e-45\n"},
		{"float32 largest", float32(math.MaxFloat32), `3.4028235e+38`, "3.4028235e+38\n"},
		{"float32 epsilon", float32(1e-5), `0.00001`, "0.00001\n"},
		{"float32 tiny", float32(1e-7), `1e-07`, "1e-07\n"},
		{"float64", 0.1, `0.1`, "0.1\n"},
		{"float64 of a float32", float64(float32(0.1)), `0.10000000149011612`, "0.10000000149011612\n"},
		{"float64 largest", math.MaxFloat64, `1.7976931348623157e+308`, "1.7976931348623157e+308\n"},
		{"float64 1e21", 1e21, `1e+21`, "1e+21\n"},
		{"float64 below 1e21", 1e20, `100000000000000000000`, "100000000000000000000\n"},
		{"negative zero", math.Copysign(0, -1), `-0`, "-0\n"},
		{"NaN", math.NaN(), `"NaN"`, "NaN\n"},
		{"NaN of 32 bits", float32(math.NaN()), `"NaN"`, "NaN\n"},
		{"infinity", math.Inf(1), `"Infinity"`, "Infinity\n"},
		{"minus infinity of 32 bits", float32(math.Inf(-1)), `"-Infinity"`, "-Infinity\n"},
		{"string", "llama", `"llama"`, "llama\n"},
		{"empty string", "", `""`, "\n"},
		{"quotes", `say "hi"`, `"say \"hi\""`, "say \"hi\"\n"},
		{"backslash", `a\nb`, `"a\\nb"`, "a\\\\nb\n"},
		{"control bytes", "\x00\b\t\n\v\f\r\x1b\x7f", `"\u0000\b\t\n\u000b\f\r\u001b\u007f"`, `\u0000\b\t\n\u000b\f\r\u001b\u007f` + "\n"},
		{"UTF-8", "▁Grüße 世界 🌍\u2028", "\"▁Grüße 世界 🌍\u2028\"", "▁Grüße 世界 🌍\u2028\n"},
		{"HTML", "<s>&amp;</s>", `"<s>&amp;</s>"`, "<s>&amp;</s>\n"},
		{"not UTF-8", "\xff\x00\n", `{"base64":"/wAK"}`, "\xff\\u0000\\n\n"},
		{"half a rune", "\xe4\xb8", `{"base64":"5Lg="}`, "\xe4\xb8\n"},
		{"JSON", JSON(`{"a":[1,null]}`), `{"a":[1,null]}`, "{\"a\":[1,null]}\n"},
		{"empty array", list{}, `[]`, ""},
		{"array", list{int32(1), int32(-2)}, `[1,-2]`, "1\n-2\n"},
		{"array of strings", list{"a\nb", "", "\xff", "x\\"}, `["a\nb","",{"base64":"/w=="},"x\\"]`, "a\\nb\n\n\xff\nx\\\\\n"},
		{"array of floats", list{float32(math.Inf(1)), float32(0.5)}, `["Infinity",0.5]`, "Infinity\n0.5\n"},
		{"array of bools", list{true, false}, `[true,false]`, "true\nfalse\n"},
		{"nested", list{list{"a\n", math.NaN()}, list{}, list{list{uint8(1)}}}, `[["a\n","NaN"],[],[[1]]]`, "[\"a\\n\",\"NaN\"]\n[]\n[[1]]\n"},
		{"array of JSON", list{JSON(`{}`), JSON(`null`)}, `[{},null]`, "{}\nnull\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := Meta{"key", test.value}
			if got := string(m.AppendJSON([]byte("before "))); got != "before "+test.json {
				t.Errorf("JSON %s, want %s", got, test.json)
			}
			if !json.Valid([]byte(test.json)) {
				t.Errorf("%s is not JSON", test.json)
			}
			if got := string(m.AppendText([]byte("before "))); got != "before "+test.text {
				t.Errorf("text %q, want %q", got, test.text)
			}
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("a value of a strange type was rendered")
		}
	}()
	Meta{"key", struct{}{}}.AppendJSON(nil)
}

// FuzzJSONString holds that any text comes back from its JSON.
func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\x1f\x7f\"\\", "\xff", "世\xe4", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendJSONString(nil, s)
		if utf8.ValidString(s) {
			var got string
			if err := json.Unmarshal(text, &got); err != nil || got != s {
				t.Fatalf("%q is %s, which is %q, %v", s, text, got, err)
			}
			// A line of metadata/KEY is the same text without quotes.
			line := strings.TrimSuffix(string(Meta{"", s}.AppendText(nil)), "\n")
			if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				t.Fatalf("%q has control bytes", line)
			}
			if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(line, `"`, `\"`)+`"`), &got); err != nil || got != s {
				t.Fatalf("%q is %s in text, which is %q, %v", s, line, got, err)
			}
			return
		}
		var got struct{ Base64 string }
		err := json.Unmarshal(text, &got)
		if b, berr := base64.StdEncoding.DecodeString(got.Base64); err != nil || berr != nil || string(b) != s {
			t.Fatalf("%q is %s: %v, %v", s, text, err, berr)
		}
	})
}
