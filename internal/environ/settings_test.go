package environ

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answered is a case of testdata/settings.json: an environment, the files of a home directory, and the settings
// that the program derives from them.
type answered struct {
	Env   map[string]string
	Files json.RawMessage
	Want  map[string]any
}

// eachAnswer sets up every case of a program and calls check, which compares values with the program's.
func eachAnswer(t *testing.T, program string, check func(t *testing.T, want func(name string) string)) {
	text, err := os.ReadFile("../../testdata/settings.json")
	must(t, err)
	var all map[string]json.RawMessage
	must(t, json.Unmarshal(text, &all))
	var cases []answered
	must(t, json.Unmarshal(all[program], &cases))
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		files := c.Files
		if string(files) == `"standard"` {
			files = all["standard"]
		}
		var texts map[string]string
		must(t, json.Unmarshal(files, &texts))
		name, _ := json.Marshal(c.Env)
		t.Run(string(name), func(t *testing.T) {
			home, err := os.MkdirTemp("", "home") // the name of t.TempDir would have $NAME in it
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(home) })
			for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
				"HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "NETRC", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
				"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
				"REQUESTS_CA_BUNDLE"} {
				t.Setenv(name, "")
			}
			t.Setenv("HOME", home)
			t.Chdir(home)
			for name, value := range c.Env {
				t.Setenv(name, strings.ReplaceAll(value, "@HOME@", home))
			}
			for name, text := range texts {
				path := filepath.Join(home, name)
				must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
			}
			check(t, func(name string) string {
				switch v := c.Want[name].(type) {
				case bool:
					return map[bool]string{true: "true", false: "false"}[v]
				case string:
					return strings.ReplaceAll(v, "@HOME@", home)
				}
				return ""
			})
		})
	}
}

// TestHuggingFace holds that the cache, the token and the switch equal huggingface_hub's.
func TestHuggingFace(t *testing.T) {
	eachAnswer(t, "huggingface", func(t *testing.T, want func(string) string) {
		cache, err := HuggingFaceCache(os.Getenv)
		if err != nil || filepath.Clean(cache) != filepath.Clean(want("cache")) {
			t.Errorf("cache %s, %v; want %s", cache, err, want("cache"))
		}
		token, err := HuggingFaceToken(os.Getenv)
		if err != nil || token != want("token") {
			t.Errorf("token %q, %v; want %q", token, err, want("token"))
		}
		if offline := HuggingFaceOffline(os.Getenv) != ""; offline != (want("offline") == "true") {
			t.Errorf("offline %t, want %s", offline, want("offline"))
		}
	})
}

// TestAWSSettings holds that the server, the region, the certificates and the key equal boto3's, and that settings
// that boto3 refuses are an error.
func TestAWSSettings(t *testing.T) {
	eachAnswer(t, "aws", func(t *testing.T, want func(string) string) {
		a, err := AWSSettings(os.Getenv)
		if why := want("refused"); why != "" {
			if err == nil && why != "InvalidRegionError" { // which is for the protocol to say
				t.Errorf("%+v, want an error: %s", a, why)
			}
			return
		}
		if err != nil || a.Endpoint != want("endpoint") || a.Region != want("region") || a.AccessKey != want("key") || a.CABundle != want("ca") {
			t.Errorf("%+v, %v; want endpoint %q, region %q, key %q, ca %q", a, err, want("endpoint"), want("region"), want("key"), want("ca"))
		}
	})
}

// TestNetrc: the file is the one that requests reads.
func TestNetrc(t *testing.T) {
	eachAnswer(t, "netrc", func(t *testing.T, want func(string) string) {
		path, err := Netrc(os.Getenv)
		must(t, err)
		text, _ := os.ReadFile(path)
		if user := want("user"); (len(text) > 0) != (user != "") || !strings.Contains(string(text), user) {
			t.Errorf("%s: %q, want the login %q", path, text, user)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
