package gs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote/bearer"
)

// serve starts a server of plain HTTP until the end of the test.
func serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// machineOf gives out tokens of a fake, as a machine of Google's cloud does, each good for life.
func machineOf(t testing.TB, s *fake, life time.Duration) string {
	return strings.TrimPrefix(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" || r.URL.Query().Get("scopes") != scope {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":%d,"token_type":"Bearer"}`, s.token("machine"), int(life.Seconds()))
	})), "http://")
}

const user = `{"type":"authorized_user","client_id":"me","client_secret":"my-client-secret","refresh_token":"my-refresh-token"}`

// external returns the file of an account of another provider, with other fields.
func external(t testing.TB, subject any, more map[string]any) string {
	return text(t, map[string]any{"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://sts.googleapis.com/v1/token", "credential_source": subject}, more)
}

const impersonated = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/me@p.iam.gserviceaccount.com:generateAccessToken"

// Credentials are found in every place of Google's documentation, in its order.
func TestCredentials(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 100))
	home := t.TempDir()
	write(t, "")
	config := filepath.Join(home, ".config", "gcloud")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "application_default_credentials.json"), []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	subject := write(t, "my-subject-token")
	job := map[string]any{"url": "https://run-1.actions.githubusercontent.com/x?audience=y", "headers": map[string]string{"Authorization": "Bearer my-job-token"}, "format": map[string]string{"type": "json", "subject_token_field_name": "value"}}
	var source map[string]any
	if err := json.Unmarshal([]byte(user), &source); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		gave string
	}{
		"key":                  {map[string]string{fileSetting: write(t, account(t, nil)), "HOME": home}, "assertion"},
		"key of an older form": {map[string]string{fileSetting: write(t, account(t, map[string]any{"auth_uri": "https://accounts.google.com/o/oauth2/auth", "project_id": "p", "universe_domain": "googleapis.com"}))}, "assertion"},
		"key as a text":        {map[string]string{"GOOGLE_CREDENTIALS": account(t, nil), fileSetting: "/none"}, "assertion"},
		"user":                 {map[string]string{"HOME": home}, "refresh_token"},
		"user elsewhere":       {map[string]string{"CLOUDSDK_CONFIG": config}, "refresh_token"},
		"another's file":       {map[string]string{fileSetting: write(t, external(t, map[string]any{"file": subject}, nil))}, "subject"},
		"a job of GitHub's":    {map[string]string{fileSetting: write(t, external(t, job, nil))}, "subject"},
		"another's as account": {map[string]string{fileSetting: write(t, external(t, map[string]any{"file": subject}, map[string]any{"service_account_impersonation_url": impersonated}))}, "subject impersonated"},
		"user as account":      {map[string]string{fileSetting: write(t, text(t, map[string]any{"type": "impersonated_service_account", "service_account_impersonation_url": impersonated, "source_credentials": source}))}, "refresh_token impersonated"},
		"machine":              {map[string]string{"GCE_METADATA_HOST": "machine"}, "machine"},
	} {
		t.Run(name, func(t *testing.T) {
			if host := tt.env["GCE_METADATA_HOST"]; host != "" {
				tt.env["GCE_METADATA_HOST"] = machineOf(t, s, time.Hour)
				t.Setenv("GCE_METADATA_HOST", tt.env["GCE_METADATA_HOST"])
			}
			s.change(func() { s.gave = nil })
			if err := opened(t, "gs://models/m.bin", s.options(t, tt.env))(0); err != nil {
				t.Error(err)
			}
			if got := strings.Join(s.gave, " "); got != tt.gave {
				t.Errorf("tokens for %q, want %q", got, tt.gave)
			}
		})
	}
}

// Credentials that would be sent to others than Google, or run a program, are refused: nothing is
// sent, and nothing runs.
func TestHostileCredentials(t *testing.T) {
	t.Setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1") // which the library goes by
	s := newFake(t)
	s.put("m.bin", make([]byte, 100))
	ran := filepath.Join(t.TempDir(), "ran")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	program := map[string]any{"executable": map[string]any{"command": "/usr/bin/touch " + ran, "timeout_millis": 5000}}
	const evil = "https://evil.example.com/token"
	with := func(base string, more ...any) string {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(base), &m); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return text(t, m)
	}
	file := map[string]any{"file": write(t, "my-subject-token")}
	notGoogle := func(field string) string {
		return "its " + field + " is not an address of Google's, so the credentials are not sent there; do not use a file that strangers made; get a new one"
	}
	key := account(t, nil)
	for name, tt := range map[string]struct{ content, want string }{
		"key to another":      {with(key, "token_uri", evil), notGoogle("token_uri")},
		"key by http":         {with(key, "token_uri", "http://oauth2.googleapis.com/token"), notGoogle("token_uri")},
		"key to a port":       {with(key, "token_uri", "https://oauth2.googleapis.com:444/token"), notGoogle("token_uri")},
		"key to a user":       {with(key, "token_uri", "https://oauth2.googleapis.com@evil.example.com/token"), notGoogle("token_uri")},
		"key to a bucket":     {with(key, "token_uri", "https://storage.googleapis.com/evil/token"), notGoogle("token_uri")},
		"key to a like name":  {with(key, "token_uri", "https://oauth2.googleapis.com.evil.example.com/token"), notGoogle("token_uri")},
		"key by another case": {strings.Replace(key, `"token_uri":"https://oauth2.googleapis.com/token"`, `"Token_URI":"`+evil+`"`, 1), notGoogle("token_uri")},
		"key twice":           {strings.TrimSuffix(key, "}") + `,"token_uri":"` + evil + `"}`, notGoogle("token_uri")},
		"another cloud":       {with(key, "universe_domain", "evil.example.com"), "it is for another cloud than Google's own"},
		"user's to another":   {with(user, "token_uri", evil), notGoogle("token_uri")},
		"program":             {external(t, program, nil), "its credential_source is a program, which tensorfs does not run; have the program write its token to a file"},
		"program below":       {text(t, map[string]any{"type": "impersonated_service_account", "service_account_impersonation_url": impersonated, "source_credentials": json.RawMessage(external(t, program, nil))}), "is a program"},
		"exchange at another": {external(t, file, map[string]any{"token_url": evil}), notGoogle("token_url")},
		"account of another":  {external(t, file, map[string]any{"service_account_impersonation_url": evil}), notGoogle("service_account_impersonation_url")},
		"subject of a server": {external(t, map[string]any{"url": evil}, nil), "the url of its credential_source is neither of GitHub's actions nor of Azure's machines, so it is not asked"},
		"subject of this one": {external(t, map[string]any{"url": "http://169.254.169.254@evil.example.com"}, nil), "the url of its credential_source"},
		"subject of Amazon":   {external(t, map[string]any{"environment_id": "aws1", "region_url": evil, "url": evil}, nil), "tensorfs does not use its credential_source"},
		"subject of a pipe":   {external(t, map[string]any{"file": pipe}, nil), "it is not a regular file; name a file with credentials"},
		"certificate":         {external(t, map[string]any{"certificate": map[string]any{}}, nil), "tensorfs does not use its credential_source"},
		"sources without end": {strings.Repeat(`{"type":"impersonated_service_account","source_credentials":`, 3) + user + "}}}", "its source_credentials have source_credentials"},
		"no type":             {"{}", "it names no type of credentials"},
		"a client's":          {`{"installed":{"client_id":"x","redirect_uris":["http://x"],"token_uri":"` + evil + `"}}`, "it names no type of credentials"},
		"another type":        {`{"type":"gdch_service_account"}`, `its type of credentials is "gdch_service_account", which tensorfs does not use`},
		"too long":            {strings.Repeat(" ", bearer.MaxAnswer+1), "it is not a file of Google's credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			s.change(func() { s.hosts = nil })
			_, _, err := Open(t.Context(), "gs://models/m.bin", s.options(t, map[string]string{fileSetting: write(t, tt.content)}))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if len(s.hosts) > 0 {
				t.Errorf("%q were asked", s.hosts)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("a program was run")
			}
		})
	}
	// What another user gives as a secret may name no file of this machine.
	_, _, err := Open(t.Context(), "gs://models/m.bin", s.options(t, map[string]string{"GOOGLE_CREDENTIALS": external(t, file, nil)}))
	if err == nil || !strings.HasPrefix(err.Error(), "GOOGLE_CREDENTIALS: credentials of the type external_account are not taken as a secret; give the key of a service account") || len(s.hosts) > 0 {
		t.Errorf("%v, %q", err, s.hosts)
	}
}

// A token that ends while a file is read is renewed, once for all readers, whether the server
// refuses it or its time is over. Only if there is no new one, reads are EACCES.
func TestTokenEnds(t *testing.T) {
	for name, set := range map[string]func(s *fake) Options{
		"refused": func(s *fake) Options {
			s.revokes = true
			return s.signed(t)
		},
		"over": func(s *fake) Options {
			s.life = 1
			return s.signed(t)
		},
		"the machine's": func(s *fake) Options {
			host := machineOf(t, s, time.Second)
			t.Setenv("GCE_METADATA_HOST", host)
			return s.options(t, map[string]string{"GCE_METADATA_HOST": host})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			want := make([]byte, 40<<20)
			for i := range want {
				want[i] = byte(i >> 16)
			}
			s.put("m.bin", want)
			o := set(s)
			l, file, err := Open(t.Context(), "gs://models/m.bin", o)
			if err != nil {
				t.Fatal(err)
			}
			f, err := l.OpenFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, len(want))
			for off := 0; off < len(got) && err == nil; off += 10 << 20 {
				err = tensorfs.ReadFull(f, got[off:off+10<<20], int64(off))
				if s.revokes {
					s.change(func() { clear(s.tokens) })
				}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v", err)
			}
			gave, asked := len(s.gave), len(s.requests())
			if gave < 3 || gave > asked+1 {
				t.Errorf("%d tokens for %d requests", gave, asked)
			}
			t.Logf("%d tokens for %d requests", gave, asked)
		})
	}
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	path := write(t, account(t, nil))
	o := s.options(t, map[string]string{fileSetting: path})
	env, lookups := o.Env, new(atomic.Int64)
	o.Env = func(name string) string {
		if name == fileSetting {
			lookups.Add(1)
		}
		return env(name)
	}
	read := opened(t, "gs://models/m.bin", o)
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(account(t, map[string]any{"client_email": "other@x"})), 0o600); err != nil {
		t.Fatal(err)
	}
	s.change(func() { clear(s.tokens); s.asked = nil })
	if err := read(19 << 20); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "Google gives no token for these credentials (invalid_grant)") {
		t.Errorf("%v", err)
	}
	if n := len(s.requests()); n > 2 {
		t.Errorf("%d requests", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lookups.Store(0)
	if err := read(17 << 20); err == nil || !strings.Contains(err.Error(), path+": no such file") || lookups.Load() > 2 {
		t.Errorf("without its file: %v after %d lookups", err, lookups.Load())
	}
	if err := os.WriteFile(path, []byte(account(t, nil)), 0o600); err != nil { // a new login
		t.Fatal(err)
	}
	if err := read(10 << 20); err != nil {
		t.Errorf("after a new login: %v", err)
	}
}

// A machine without the service is not waited for.
func TestNoMachine(t *testing.T) {
	s := newFake(t)
	s.open = true
	s.put("m.bin", make([]byte, 100))
	var asked atomic.Int64
	host := strings.TrimPrefix(serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})), "http://")
	t.Setenv("GCE_METADATA_HOST", host)
	if err := opened(t, "gs://models/m.bin", s.options(t, map[string]string{"GCE_METADATA_HOST": host}))(0); err != nil || asked.Load() != 1 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}
