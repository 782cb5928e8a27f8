package s3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// giver gives out the right credentials for so long, as machines and containers do.
func giver(t *testing.T, good time.Duration) (*httptest.Server, *atomic.Int64) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut:
			fmt.Fprint(w, "imds-token")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "imds-token":
			fmt.Fprint(w, "role")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/role" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "imds-token",
			r.URL.Path == "/container" && r.Header.Get("Authorization") == "container-token":
			session := fmt.Sprint("session ", asked.Add(1))
			json.NewEncoder(w).Encode(map[string]any{"Code": "Success", "AccessKeyId": goodKey, "SecretAccessKey": goodSecret, "Token": session, "Expiration": time.Now().Add(good)})
		default:
			http.Error(w, "no", http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// Credentials are found in every place of the documentation, and signed with.
func TestCredentials(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 100))
	g, _ := giver(t, time.Hour)
	home := t.TempDir()
	dir := filepath.Join(home, ".aws")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"credentials": "[default]\naws_access_key_id = " + goodKey + "\naws_secret_access_key = " + goodSecret + "\n[wrong]\naws_access_key_id = AKIAWRONG\naws_secret_access_key = hunter2\n",
		"config":      "[profile work]\naws_access_key_id = " + goodKey + "\naws_secret_access_key = " + goodSecret + "\n[profile sso]\nsso_start_url = https://example.com\nsso_region = us-east-1\n[profile region]\nregion = us-east-1\n",
		"broken":      "[default\nsecret hunter2\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		env  string
		want string // of the error, "" for none
	}{
		{"environment", "AWS_ACCESS_KEY_ID=" + goodKey + " AWS_SECRET_ACCESS_KEY=" + goodSecret + " AWS_PROFILE=wrong", ""},
		{"environment, and no such profile", "AWS_ACCESS_KEY_ID=" + goodKey + " AWS_SECRET_ACCESS_KEY=" + goodSecret + " AWS_PROFILE=none", `no file of AWS's tools has the profile "none"; `},
		{"session", "AWS_ACCESS_KEY_ID=" + goodKey + " AWS_SECRET_ACCESS_KEY=" + goodSecret + " AWS_SESSION_TOKEN=hunter2", ""},
		{"default profile", "", ""},
		{"profile", "AWS_PROFILE=work", ""},
		{"another profile", "AWS_PROFILE=wrong", "does not know this access key"},
		{"no such profile", "AWS_PROFILE=none", `no file of AWS's tools has the profile "none"; `},
		{"single sign-on", "AWS_PROFILE=sso", `the profile "sso" gives no credentials by sso_start_url; `},
		{"profile without credentials", "AWS_PROFILE=region", `the profile "region" gives no credentials; `},
		{"broken file", "AWS_PROFILE=default AWS_SHARED_CREDENTIALS_FILE=" + dir + "/broken AWS_CONFIG_FILE=/none", "it is not a file of AWS's settings; "},
		{"broken file, not asked for", "AWS_SHARED_CREDENTIALS_FILE=" + dir + "/broken AWS_CONFIG_FILE=/none", "it is not a file of AWS's settings; "},
		{"container", "HOME=/none AWS_CONTAINER_CREDENTIALS_FULL_URI=" + g.URL + "/container AWS_CONTAINER_AUTHORIZATION_TOKEN=container-token", ""},
		{"container that has none", "HOME=/none AWS_CONTAINER_CREDENTIALS_FULL_URI=" + g.URL + "/none", "who is named there gives no credentials; "},
		{"machine", "HOME=/none AWS_EC2_METADATA_DISABLED= AWS_EC2_METADATA_SERVICE_ENDPOINT=" + g.URL, ""},
		{"machine that is not asked", "HOME=/none AWS_EC2_METADATA_SERVICE_ENDPOINT=" + g.URL, "there are no credentials"},
		{"machine that has none", "HOME=/none AWS_EC2_METADATA_DISABLED= AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1", "there are no credentials"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setEnv(t, "AWS_ENDPOINT_URL", s.URL, "HOME", home)
			for v := range strings.FieldsSeq(tt.env) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			_, _, err := Open(t.Context(), "s3://models/m.bin", options(t))
			if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(got, tt.want)) || strings.Contains(got, "hunter2") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Credentials that end are looked up again, and until then they are not.
func TestCredentialsEnd(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	for good, want := range map[time.Duration]bool{time.Hour: false, -time.Minute: true} {
		g, asked := giver(t, good)
		setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_CONTAINER_CREDENTIALS_FULL_URI", g.URL+"/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token")
		l, _, err := Open(t.Context(), "s3://models/m.bin", options(t))
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.OpenFile("m.bin")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for off := int64(0); off < 20<<20; off += 5 << 20 {
			if err := tensorfs.ReadFull(f.Section(0, f.Size()), make([]byte, 10), off); err != nil {
				t.Fatal(err)
			}
		}
		if n := asked.Load(); (n > 1) != want {
			t.Errorf("asked %d times for what is good for %v", n, good)
		}
	}
}

// A process that is given other credentials uses them for the next request, whether or not the old ones are still good.
func TestCredentialsGiven(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", goodSecret)
	_, read := opened(t, "s3://models/m.bin", options(t))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if err := read(9 << 20); err == nil {
		t.Error("the old credentials are still used")
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", goodSecret)
	if err := read(15 << 20); err != nil {
		t.Error(err)
	}
}

// A read without usable credentials fails after one attempt, because only the user can change that. A
// service that gives no credentials is asked again.
func TestCredentialsFinal(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	for _, tt := range []struct {
		env, want string
		final     bool
	}{
		{"AWS_ACCESS_KEY_ID=", "s3://models/m.bin: AWS_SECRET_ACCESS_KEY: it is set, and AWS_ACCESS_KEY_ID is not; ", true},
		{"AWS_ACCESS_KEY_ID= AWS_SECRET_ACCESS_KEY= AWS_PROFILE=none", `s3://models/m.bin: AWS_PROFILE: no file of AWS's tools has the profile "none"; `, true},
		{"AWS_ACCESS_KEY_ID= AWS_SECRET_ACCESS_KEY= AWS_CONTAINER_CREDENTIALS_FULL_URI=" + none.URL, "s3://models/m.bin: who is named there gives no credentials; ", false},
	} {
		setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", goodSecret)
		var log bytes.Buffer
		o := options(t)
		o.Client = web.NewClient(web.Options{Timeout: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		defer o.Client.Close()
		_, read := opened(t, "s3://models/m.bin", o)
		for v := range strings.FieldsSeq(tt.env) {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		if err := read(9 << 20); err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(log.String(), "an attempt failed") == tt.final {
			t.Errorf("%s: %v after\n%s", tt.env, err, &log)
		}
	}
}

// Credentials that the server refuses are read again, because new ones may have been written.
func TestCredentialsChange(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(secret string) {
		if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+goodKey+"\naws_secret_access_key = "+secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(goodSecret)
	setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_SHARED_CREDENTIALS_FILE", file)
	_, read := opened(t, "s3://models/m.bin", options(t))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.secret = "new"
	s.mu.Unlock()
	write("new")
	if err := read(19 << 20); err != nil {
		t.Error(err)
	}
}

// A session that ends during a read, which AWS reports with 400, continues with the next session,
// after one lookup of credentials. If the lookup returns the expired credentials, the read fails
// immediately.
func TestCredentialsExpire(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	g, asked := giver(t, time.Hour)
	setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_CONTAINER_CREDENTIALS_FULL_URI", g.URL+"/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token")
	for _, code := range []string{"ExpiredToken", "TokenRefreshRequired", "InvalidRequest"} {
		for _, times := range []int{1, 1000} {
			_, read := opened(t, "s3://models/m.bin", options(t))
			if err := read(0); err != nil {
				t.Fatal(err)
			}
			left := times
			before := asked.Load()
			s.mu.Lock()
			s.asked = nil
			s.fault = func(w http.ResponseWriter, _ *http.Request) bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				if left--; left < 0 {
					return false
				}
				s.fail(w, http.StatusBadRequest, code, "")
				return true
			}
			s.mu.Unlock()
			err, want, looked := read(19<<20), 2, int64(1)
			switch {
			case code == "InvalidRequest":
				if want, looked = 1, 0; err == nil || !strings.Contains(err.Error(), `s3://models/m.bin: the server answers 400 Bad Request; it calls this "InvalidRequest"`) {
					t.Errorf("%s: %v", code, err)
				}
			case times == 1 && err != nil:
				t.Errorf("%s: %v", code, err)
			case times > 1 && (!errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "s3://models/m.bin: the credentials have expired; get new ones")):
				t.Errorf("%s for ever: %v", code, err)
			}
			if n := len(s.requests()); n != want || asked.Load()-before != looked {
				t.Errorf("%s, %d times: %d requests, credentials were asked for %d times", code, times, n, asked.Load()-before)
			}
			s.mu.Lock()
			s.fault = nil
			s.mu.Unlock()
		}
	}
	// If many ranges are refused concurrently, only one looks up credentials: the giver's next
	// session would be another.
	const parts = 16 // as many as a host gets at a time
	s.put("large.bin", make([]byte, parts<<20))
	d, _ := opened(t, "s3://models/large.bin", options(t))
	before := asked.Load()
	var refused atomic.Int64
	all := make(chan struct{}) // closed when all are signed
	s.mu.Lock()
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Amz-Security-Token") != fmt.Sprint("session ", before) {
			return false
		}
		if refused.Add(1) == parts {
			close(all)
		}
		testlimit.Receive(t, "parts at the same time", all)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail(w, http.StatusBadRequest, "ExpiredToken", "")
		return true
	}
	s.mu.Unlock()
	if err := tensorfs.Fetch(t.Context(), d, 0, d.Size()); err != nil {
		t.Error(err)
	}
	if n := asked.Load() - before; n != 1 || refused.Load() != parts {
		t.Errorf("%d requests were refused, and credentials were asked for %d times", refused.Load(), n)
	}
	// It may also end between the pages of a listing.
	left := 1
	s.mu.Lock()
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if left--; left < 0 {
			return false
		}
		s.fail(w, http.StatusBadRequest, "ExpiredToken", "")
		return true
	}
	s.mu.Unlock()
	if _, _, err := Open(t.Context(), "s3://models/", options(t)); err != nil {
		t.Error(err)
	}
}

// Credentials are requested only when a server needs them, and not again once a request has found
// no credentials.
func TestNoCredentials(t *testing.T) {
	var asked atomic.Int64
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer g.Close()
	s := newFake(t)
	s.open = true
	s.put("m.bin", make([]byte, 20<<20))
	setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_EC2_METADATA_DISABLED", "", "AWS_EC2_METADATA_SERVICE_ENDPOINT", g.URL)
	o := options(t)
	o.Offline = "--offline"
	if _, _, err := Open(t.Context(), "s3://models/m.bin", o); err == nil || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	o = Options{Client: testremote.Client(t, time.Minute), Store: o.Store}
	_, read := opened(t, "s3://models/m.bin", o)
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	if err := read(19 << 20); err != nil || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
