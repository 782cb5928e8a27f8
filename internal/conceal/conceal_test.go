package conceal_test

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/conceal"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"https://host/dir/m.gguf":                       "https://host/dir/m.gguf",
		"https://user:secret@host:8443/m.gguf":          "https://host:8443/m.gguf",
		"https://host/m.gguf?sig=secret#secret":         "https://host/m.gguf?...",
		"https://user:se%zzcret@host/m.gguf?sig=secret": "https://...",
		"https://user:sec/ret@host/m.gguf":              "https://...",
		"https://user:p?secret@host/m.gguf":             "https://...",
		"https://host/a@b:0.5":                          "https://host/a@b:0.5",
		"ftp://user:secret@host/x":                      "ftp://host/x",
		"HTTPS://user:secret@host/x":                    "https://host/x",
		"https://secret@/x":                             "https:///x",
		"s3://models/a b%20c?d@e.gguf":                  "s3://models/a b%20c?d@e.gguf",
		"s3://user:secret@models/x":                     "s3://...@models/x",
		"gs://models/a b%20c?d@e.gguf":                  "gs://models/a b%20c?d@e.gguf",
		"gs://user:secret@models/x":                     "gs://...@models/x",
		"az://c0n/a b%20c@e.gguf":                       "az://c0n/a b%20c@e.gguf",
		"az://c@acct.dfs.core.windows.net/x?sig=secret": "az://acct.dfs.core.windows.net/c/x?...",
		"az://c0n/x?sig=secret?b#secret":                "az://c0n/x?...",
		"az://user:secret@c0n/x":                        "az://...@c0n/x",
		"az://user:sec/ret@c0n/x":                       "az://...",
		"s3://user:sec/ret@models/x":                    "s3://...",
		"oci://host:5000/a/b:tag":                       "oci://host:5000/a/b:tag",
		"hf:org/name@main:Q4_0":                         "hf:org/name@main:Q4_0",
		"hf:https://user:secret@host/o/n?t=secret":      "hf:https://...",
		"model.gguf":                                    "model.gguf",
		"what?.gguf":                                    "what?.gguf",
		"./a://b@c?d":                                   "./a://b@c?d", // a path, which no program takes for an address
		"://b@c?d":                                      "://b@c?d",
		"1a://b@c?d":                                    "1a://b@c?d",
	} {
		got := conceal.Name(in)
		if got != want || strings.Contains(got, "secret") {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	const name = "https://u:p w@h/m?k=a b#f"
	for _, test := range []struct{ text, want string }{
		{"https://u:p@h/m?k=1: not found", "https://h/m?...: not found"},
		{"open /cwd/https:/u:p@h/m?k=1: no such file", "open /cwd/https:/h/m?...: no such file"},
		{`"https://h/m?k=1" is wrong (see https://h/m#p)`, `"https://h/m?..." is wrong (see https://h/m#...)`},
		{"did you mean https://h/m?...? https://h/n?...: no", "did you mean https://h/m?...? https://h/n?...: no"},
		{"s3://b/k, hf:o/n@main and https://h/m", "s3://b/k, hf:o/n@main and https://h/m"},
		{name + ": bad", "https://...: bad"},
		{"what? a@b", "what? a@b"},
	} {
		if got := conceal.Text(test.text, "info", name); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}
