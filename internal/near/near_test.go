package near_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

func TestNames(t *testing.T) {
	models := []string{"tiny", "gemma3", "gemma3-27b", "gemma2", "qwen3-moe", "Meta-Llama-3", "phi3"}
	tensors := []string{"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.10.attention.q.weight", "output.weight", "output_norm.weight"}
	for _, x := range []struct {
		want string
		have []string
		max  int
		near []string
	}{
		{"tini", models, 3, []string{"tiny"}},
		{"TINY", models, 3, []string{"tiny"}},
		{"tyni", models, 3, nil}, // two differences in four letters
		{"itny", models, 3, []string{"tiny"}},
		{"tinyy", models, 3, []string{"tiny"}},
		{"tin", models, 3, []string{"tiny"}},
		{"iny", models, 3, []string{"tiny"}},
		{"gemma", models, 3, []string{"gemma2", "gemma3", "gemma3-27b"}},
		{"gemma", models, 2, []string{"gemma2", "gemma3"}},
		{"gemma3", models, 9, []string{"gemma3", "gemma2", "gemma3-27b"}},
		{"a", []string{"b", "A", "ab"}, 3, []string{"A"}}, // any letter is one difference away
		{"llama", models, 3, []string{"Meta-Llama-3"}},
		{"la", models, 3, nil},
		{"qwen3_moe", models, 3, []string{"qwen3-moe"}},
		{"mistral", models, 3, nil},
		{"", models, 3, nil},
		{"tiny", models, 0, nil},
		{"tiny", nil, 3, nil},
		{"tiny", []string{"tiny", "tiny"}, 3, []string{"tiny"}},
		{"layers.0.attention.q.wieght", tensors, 1, []string{"layers.0.attention.q.weight"}},
		{"layers.0.atention.q.weight", tensors, 2, []string{"layers.0.attention.q.weight", "layers.0.attention.k.weight"}},
		{"ouput.weight", tensors, 3, []string{"output.weight"}},
		{"\xffiny", []string{"\xfe\xffiny", "tiny"}, 3, []string{"tiny", "\xfe\xffiny"}},
		{strings.Repeat("x", 256), []string{strings.Repeat("x", 255)}, 3, nil},
		{strings.Repeat("x", 255), []string{strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 254)}, 3, []string{strings.Repeat("x", 255), strings.Repeat("x", 254)}},
	} {
		if got := near.Names(x.want, x.have, x.max); !slices.Equal(got, x.near) {
			t.Errorf("near %q of %d, at most %d: %q, want %q", x.want, len(x.have), x.max, got, x.near)
		}
		back := slices.Clone(x.have)
		slices.Reverse(back)
		if got := near.Names(x.want, back, x.max); !slices.Equal(got, x.near) {
			t.Errorf("near %q, in another order: %q, want %q", x.want, got, x.near)
		}
	}
}

// slow is the usual table, complete.
func slow(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0:
				d[i][j] = j
			case j == 0:
				d[i][j] = i
			default:
				d[i][j] = min(d[i-1][j], d[i][j-1]) + 1
				if a[i-1] == b[j-1] {
					d[i][j] = min(d[i][j], d[i-1][j-1])
				} else {
					d[i][j] = min(d[i][j], d[i-1][j-1]+1)
				}
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					d[i][j] = min(d[i][j], d[i-2][j-2]+1)
				}
			}
		}
	}
	return d[len(a)][len(b)]
}

// FuzzNames holds the quick count to the complete table.
func FuzzNames(f *testing.F) {
	f.Add("layers.0.attention.q.weight", "layres.0.atention.q.wieght")
	f.Add("tiny", "tini")
	f.Add("0", "1")
	f.Add("abcdefghijkl", "bacdefghijlkm")
	f.Add("aaaaaaaaaaaaa", "aaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, a, b string) {
		for i := range len(a) + len(b) {
			if (a + b)[i] >= 0x80 { // strings.ToLower is about Unicode
				return
			}
		}
		got := near.Names(a, []string{b}, 1)
		if a == "" || len(a) > 255 || len(b) > 255 {
			if got != nil {
				t.Fatalf("%q is near %q", got, a)
			}
			return
		}
		limit := min(len(a)-1, 1+len(a)/6, 4)
		at := strings.Index(strings.ToLower(b), strings.ToLower(a))
		want := slow(a, b) <= limit || at == 0 && len(a) > 1 || at > 0 && len(a) > 2
		if (got != nil) != want {
			t.Fatalf("%q near %q: %v, with %d differences", b, a, got, slow(a, b))
		}
	})
}

// TestManyNames has a directory that makes the comparison as dear as it can be.
func TestManyNames(t *testing.T) {
	want := strings.Repeat("x", 248)
	have := make([]string, 100_000)
	for i := range have {
		have[i] = fmt.Sprintf("y%s%05d", want[:247], i)
	}
	testlimit.Work(t, 200, func() {
		if n := testlimit.Allocated(func() { near.Names(want, have, 3) }); n > 64<<10 {
			t.Errorf("it allocates %d bytes", n)
		}
	})
}

func TestList(t *testing.T) {
	long := slices.Repeat([]string{strings.Repeat("x", 200)}, 5)
	for _, x := range []struct {
		names          []string
		list, question string
	}{
		{nil, "", ""},
		{[]string{"a"}, "a", "did you mean a?"},
		{[]string{"a", "b\x1b", "c"}, `a, "b\x1b", c`, `did you mean a, "b\x1b" or c?`},
		{long, long[0] + " and 4 more", "did you mean " + long[0] + " and 4 more?"},
	} {
		if got := near.List(x.names); got != x.list {
			t.Errorf("list %q, want %q", got, x.list)
		}
		if got := near.Question(x.names); got != x.question {
			t.Errorf("question %q, want %q", got, x.question)
		}
	}
}
