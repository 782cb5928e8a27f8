package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// stating is a server that states one digest and size of a model in every protocol,
// and sends what it likes.
type stating struct {
	*httptest.Server
	digest string
	sent   []byte
}

func newStating(t testing.TB, digest string, sent []byte) *stating {
	s := &stating{digest: digest, sent: sent}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func digestOfBytes(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// ServeHTTP answers as the Hub, as a registry of Ollama models and of others, as S3
// and as any server, whose ETags look like the digest.
func (s *stating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const commit = "0123456789012345678901234567890123456789"
	hex := strings.TrimPrefix(s.digest, "sha256:")
	config := []byte(`{}`)
	manifest := func(media, configMedia, layerMedia string) []byte {
		layer := func(media, digest string, size int) map[string]any {
			return map[string]any{"mediaType": media, "digest": digest, "size": size}
		}
		text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media,
			"config": layer(configMedia, digestOfBytes(config), len(config)), "layers": []any{layer(layerMedia, s.digest, len(s.sent))}})
		w.Header().Set("Content-Type", media)
		return text
	}
	var b []byte
	switch p := r.URL.Path; {
	case p == "/api/models/org/m/revision/main":
		b = []byte(`{"id":"org/m","sha":"` + commit + `"}`)
	case strings.HasPrefix(p, "/api/models/org/m/tree/"):
		b = fmt.Appendf(nil, `[{"type":"file","path":"m.gguf","size":%d,"oid":"%s","lfs":{"oid":"%s","size":%d}}]`, len(s.sent), commit, hex, len(s.sent))
	case strings.HasPrefix(p, "/v2/lib/m/manifests/ollama"):
		b = manifest("application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.container.image.v1+json", "application/vnd.ollama.image.model")
	case strings.HasPrefix(p, "/v2/lib/m/manifests/"):
		b = manifest("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.ai.model.config.v0.1+json", "application/vnd.docker.ai.gguf.v3")
	case strings.HasSuffix(p, digestOfBytes(config)):
		b = config
	case p == "/api/v1/models/org/m/repo/files":
		b = fmt.Appendf(nil, `{"Code":200,"Success":true,"Data":{"Files":[{"Type":"blob","Path":"m.gguf","Size":%d,"Revision":"%s","Sha256":"%s"}]}}`, len(s.sent), commit, hex)
	case strings.HasPrefix(p, "/storage/v1/b/models/o/"):
		b = fmt.Appendf(nil, `{"name":%q,"size":"%d","generation":"1"}`, strings.TrimPrefix(p, "/storage/v1/b/models/o/"), len(s.sent))
	default:
		w.Header().Set("ETag", `"`+s.digest+`"`)
		w.Header().Set("X-Goog-Generation", "1")
		b = s.sent
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(b))
}

// protocolNames are names by which each protocol finds the model of a server.
var protocolNames = []struct {
	name   string
	digest bool // it states one
	model  func(host string) string
}{
	{"hf", true, func(string) string { return "hf:org/m" }},
	{"ms", true, func(string) string { return "ms:org/m" }},
	{"ollama", true, func(host string) string { return "ollama:" + host + "/lib/m:ollama" }},
	{"oci", true, func(host string) string { return "oci://" + host + "/lib/m:oci" }},
	{"https", false, func(host string) string { return "http://" + host + "/m.gguf" }},
	{"s3", false, func(string) string { return "s3://models/m.gguf" }},
	{"gs", false, func(string) string { return "gs://models/m.gguf" }},
	{"az", false, func(string) string { return "az://models/m.gguf" }},
}

// from sets the environment for a server, and returns the name of its model.
func (s *stating) from(t *testing.T, model func(host string) string) string {
	name := model(strings.TrimPrefix(s.URL, "http://"))
	endpoint := s.URL
	if strings.HasPrefix(name, "http") { // else it would be an address of the Hub
		endpoint = ""
	}
	t.Setenv("HF_ENDPOINT", endpoint)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("STORAGE_EMULATOR_HOST", s.URL)
	t.Setenv("AZURE_STORAGE_BLOB_ENDPOINT", s.URL)
	t.Setenv("MODELSCOPE_ENDPOINT", s.URL)
	t.Setenv("AWS_NO_SIGN_REQUEST", "1")
	return name
}

// twoModels returns the files of two models of the same size, one named Good, and the offset of
// tensor i in both.
func twoModels(t testing.TB, tensors, rows int64) (good, evil []byte, tensor func(i int64) (from, to int64)) {
	t.Helper()
	const columns = 1024
	each := rows * columns * 2
	make := func(name string, fill byte) []byte {
		var list []gguf.Stored
		for i := range tensors {
			list = append(list, gguf.Stored{Name: fmt.Sprintf("blk.%d.ffn_up.weight", i), DType: tensorfs.F16, Shape: []int64{rows, columns}, Data: tensorfs.Bytes(bytes.Repeat([]byte{fill, byte(i)}, int(each/2)))})
		}
		d, err := gguf.Compose([]tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: name}}, list)
		if err != nil {
			t.Fatal(err)
		}
		return bytesOf(t, d)
	}
	good, evil = make("Good", 'g'), make("Evil", 'e')
	head := int64(len(good)) - tensors*each
	return good, evil, func(i int64) (int64, int64) { return head + i*each, head + (i+1)*each }
}

// TestNamesOpenAgain: the path that info prints names the file, with the letters that the user wrote, and opens the same model.
func TestNamesOpenAgain(t *testing.T) {
	apart(t)
	good, _, _ := twoModels(t, 1, 1)
	server := newStating(t, digestOfBytes(good), good)
	for _, p := range protocolNames {
		model := server.from(t, p.model)
		if p.name == "s3" || p.name == "gs" {
			model = p.name + "://models/m %20one?.gguf"
		}
		var info struct{ Path string }
		must(t, json.Unmarshal([]byte(succeeds(t, "info", "--json", model)), &info))
		if (p.name == "s3" || p.name == "gs") && info.Path != model {
			t.Errorf("%s has the path %s", model, info.Path)
		}
		if out := succeeds(t, "info", info.Path); !strings.Contains(out, "Good") {
			t.Errorf("%s: %s", info.Path, out)
		}
		dir := mounted(t, model)
		if text, err := os.ReadFile(filepath.Join(dir, "README")); err != nil || !strings.Contains(string(text), info.Path) {
			t.Errorf("README of %s does not name %s (%v)", model, info.Path, err)
		}
	}
}

// TestServersApart has two servers that state one digest, but one server sends wrong bytes, in each
// ordered pair of protocols (a third of the pairs in the short form), before a model of the other server is opened and
// while it is mounted.
// No byte of the wrong server is read, neither header nor tensors; once all right bytes are local
// they serve for both.
func TestServersApart(t *testing.T) {
	good, evil, tensor := twoModels(t, 3, 3<<10) // more than what is verified first
	digest := digestOfBytes(good)
	raw := func(i int64) string { return fmt.Sprintf("raw/layers.%d.ffn.up.weight", i) }
	bytesIn := func(b []byte, i int64) string { from, to := tensor(i); return string(b[from:to]) }
	for i, bad := range protocolNames {
		for j, victim := range protocolNames {
			if !bad.digest && !victim.digest || testing.Short() && (i+j)%3 != 0 { // each of them is both
				continue
			}
			t.Run(bad.name+" to "+victim.name, func(t *testing.T) {
				apart(t)
				right, wrong := newStating(t, digest, good), newStating(t, digest, evil)
				var mount string
				rightly := func(when string) {
					t.Helper()
					model := right.from(t, victim.model)
					if got := infoOf(t, model); !strings.Contains(got, `"name":"Good"`) {
						t.Errorf("%s: %s", when, got)
					}
					if got := succeeds(t, "cat", model, raw(0)); got != bytesIn(good, 0) {
						t.Errorf("%s: the tensor has wrong bytes: %.8q", when, got)
					}
				}
				wrongly := func(i int64) {
					t.Helper()
					model := wrong.from(t, bad.model)
					if got := infoOf(t, model); !strings.Contains(got, `"name":"Evil"`) {
						t.Fatal(got)
					}
					if got := succeeds(t, "cat", model, raw(i)); got != bytesIn(evil, i) {
						t.Fatalf("not even its own server's: %.8q", got)
					}
				}
				wrongly(0)
				rightly("after it")
				mount = mountedFar(t, right.from(t, victim.model))
				wrongly(1)
				for i := range int64(2) {
					if got, err := os.ReadFile(filepath.Join(mount, raw(i))); err != nil || string(got) != bytesIn(good, i) {
						t.Errorf("mounted: tensor %d has wrong bytes: %.8q, %v", i, got, err)
					}
				}
				if !bad.digest {
					succeeds(t, "fetch", wrong.from(t, bad.model))
					rightly("after all of it")
				} else {
					failsWith(t, 1, []string{"fetch", wrong.from(t, bad.model)}, "have the digest "+digestOfBytes(evil)+" instead of "+digest)
				}
				if got, err := os.ReadFile(filepath.Join(mount, raw(2))); err != nil || string(got) != bytesIn(good, 2) {
					t.Errorf("mounted, after all of it: wrong bytes: %.8q, %v", got, err)
				}
				succeeds(t, "fetch", right.from(t, victim.model))
				model := wrong.from(t, bad.model)
				want, name := bytesIn(good, 1), "Good"
				if !bad.digest || !victim.digest {
					want, name = bytesIn(evil, 1), "Evil"
				}
				if got := infoOf(t, model); !strings.Contains(got, `"name":"`+name+`"`) {
					t.Errorf("when the other is whole: %s", got)
				}
				if got := succeeds(t, "cat", model, raw(1)); got != want {
					t.Errorf("when the other is whole: %.8q, want %.8q", got, want)
				}
				rightly("when it is whole")
			})
		}
	}
}
