package plain

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"https://", "https:///m.gguf", "https://host", "https://host/", "https://host/dir/", "https://host/..", "https://host/a%2F", "https://host/a%00.gguf", "https://host/a%5Cb",
		"https:host/m.gguf", "ftp://host/m.gguf", "https://user:secret@host:port/m.gguf", "https://user:secret@ho st/m.gguf", "https://user:secret@host/\x00?sig=secret",
	} {
		a, err := parse(in)
		if err == nil || strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %+v, error %v", in, a, err)
		}
	}
	a, err := parse("https://user:pw@Host:8443/a%20dir/m%C3%BC.gguf?x=1#f")
	if err != nil || a.file() != "mü.gguf" || a.dir() != "https://Host:8443/a%20dir" || a.user.String() != "user:pw" || a.url.User != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// One file has one identity, whatever signature its address has; another file has another identity.
func TestSame(t *testing.T) {
	t.Parallel()
	same := func(s string) string {
		a, err := parse(s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.same(), "secret") {
			t.Errorf("%s is known as %s", s, a.same())
		}
		return a.same()
	}
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"https://h/m?X-Amz-Signature=secret1&X-Amz-Date=1", "https://u:p@H/m?x-amz-date=2&X-Amz-Signature=secret2", true},
		{"https://h/m?id=1&token=secret1", "https://h/m?id=1&token=secret2", true},
		{"https://h/m?sv=1&se=2&sig=secret1", "https://h/m?sv=2&se=9&sig=secret3", true},
		{"https://h/m?id=1", "https://h/m?id=2", false},
		{"https://h/m?sv=1", "https://h/m?sv=2", false},
		{"https://h/m?key=secret1", "https://h/m?key=secret2", false},
		{"https://h/m", "https://h/n", false},
		{"https://h/m", "http://h/m", false},
		{"https://h/m", "https://h:444/m", false},
	} {
		if got := same(x.a) == same(x.b); got != x.same {
			t.Errorf("%s and %s are the same: %v", x.a, x.b, got)
		}
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	a, err := parse("https://h/d/m-00002-of-00003.gguf?sig=x")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range a.shards() {
		got = append(got, x.url.String())
	}
	want := []string{"https://h/d/m-00001-of-00003.gguf?sig=x", "https://h/d/m-00002-of-00003.gguf?sig=x", "https://h/d/m-00003-of-00003.gguf?sig=x"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-99999.gguf", "model-00001-of-00002.safetensors"} {
		if a, err = parse("https://h/" + name); err != nil || len(a.shards()) != 1 || a.shards()[0] != a {
			t.Errorf("%s: %v, %v", name, a.shards(), err)
		}
	}
}

func TestNetrc(t *testing.T) {
	t.Parallel()
	const text = `# machine h login no password no
machine other login o password op
macdef init
machine h login macro password macro

machine H
	login me   password "p#w"
machine h login second password second
default login d password d
`
	for host, want := range map[string]string{"h": "me:p%23w", "other": "o:op", "sub.h": "", "hh": "", "": ""} {
		got := findLogin(text, host)
		if got == nil && want != "" || got != nil && got.String() != want {
			t.Errorf("%s: %v, want %q", host, got, want)
		}
	}
	for _, text := range []string{"", "machine", "machine h", "machine h login", "login x machine", "macdef", "machine h password"} {
		findLogin(text, "h") // it ends
	}
}
