package az

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const testdata = "../../../testdata"

const odd = "some where/50% of#&+=:@'(ä)/"

// By the account's key; a prefix with an index and shards is one model, also page by page. All bytes
// of all views equal the local model's, also offline, and each range asks for an ETag.
func TestModels(t *testing.T) {
	s := newFake(t)
	s.pages = 2
	for _, m := range testremote.Models(t, testdata) {
		t.Run(m.Name, func(t *testing.T) {
			for name, b := range m.Files {
				s.put(odd+m.Name+"/"+name, b)
			}
			s.put(odd+m.Name+"/", nil) // what consoles make to show a directory
			folder := "az://models/" + odd + m.Name + "/"
			one := folder
			if m.Open != "." {
				one += m.Open
			}
			o := s.signed(t)
			for _, name := range []string{one, folder} {
				l, file, err := Open(t.Context(), name, o)
				if err != nil {
					t.Fatal(err)
				}
				if file != m.Open {
					t.Errorf("%s: the model is %q", name, file)
				}
				testremote.Same(t, l, file, m.Local(t))
			}
			asked := len(s.requests())
			o.Offline = "--offline"
			l, file, err := Open(t.Context(), one, o)
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, m.Local(t))
			if n := len(s.requests()); n != asked || s.unpinned != 0 {
				t.Errorf("%d requests although offline, %d without an ETag", n-asked, s.unpinned)
			}
		})
	}
}

// serve is a server of this machine until the end of the test.
func serve(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// opened opens a file of a name, and returns a function that reads a few bytes of it.
func opened(t *testing.T, name string, o Options) func(off int64) error {
	t.Helper()
	l, file, err := Open(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := f.Section(0, f.Size())
	return func(off int64) error { return tensorfs.ReadFull(s, make([]byte, 16), off) }
}

// Every kind of credentials finds the blob, and is used in its order. What belongs to an account is
// used for no other.
func TestCredentials(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 100))
	machine := serve(t, s.machine)
	subject := principalOf()
	delete(subject, "AZURE_CLIENT_SECRET")
	subject["AZURE_FEDERATED_TOKEN_FILE"] = write(t, "my-subject-token\n")
	with := func(base map[string]string, more ...string) map[string]string {
		env := maps.Clone(base)
		if env == nil {
			env = map[string]string{}
		}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	const connection = "DefaultEndpointsProtocol=https;AccountName=acct;EndpointSuffix=core.windows.net;"
	for name, tt := range map[string]struct {
		name string
		env  map[string]string
		open bool // the container
		gave string
	}{
		"key":               {"az://models/m.bin", with(nil, "AZURE_STORAGE_KEY", accountKey), false, ""},
		"key, other name":   {"az://models/m.bin", with(nil, accountSetting, "", "AZURE_STORAGE_ACCOUNT_NAME", "acct", "AZURE_STORAGE_ACCOUNT_KEY", accountKey), false, ""},
		"key before token":  {"az://models/m.bin", with(nil, "AZURE_STORAGE_KEY", accountKey, "AZURE_STORAGE_SAS_TOKEN", "sig=wrong"), false, ""},
		"SAS":               {"az://models/m.bin", with(nil, "AZURE_STORAGE_SAS_TOKEN", "?"+sasToken), false, ""},
		"SAS of the name":   {"az://acct.blob.core.windows.net/models/m.bin?" + sasToken, with(nil, accountSetting, "", "AZURE_STORAGE_SAS_TOKEN", "sig=wrong"), false, ""},
		"connection":        {"az://models/m.bin", with(nil, connectionSetting, connection+"AccountKey="+accountKey), false, ""},
		"connection by SAS": {"az://models/m.bin", with(nil, connectionSetting, "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature="+sasToken), false, ""},
		"a token":           {"az://models/m.bin", with(nil, "AZURE_STORAGE_TOKEN", "my-given-token"), false, ""},
		"principal":         {"az://models/m.bin", principalOf(), false, "secret"},
		"principal of all":  {"az://models@acct.dfs.core.windows.net/m.bin", with(principalOf(), accountSetting, "other", "AZURE_STORAGE_KEY", accountKey), false, "secret"},
		"workload":          {"az://models/m.bin", with(subject, "AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/"), false, "assertion"},
		"workload chosen":   {"az://models/m.bin", with(subject, "AZURE_CLIENT_SECRET", "hunter2", "AZURE_TOKEN_CREDENTIALS", "WorkloadIdentityCredential"), false, "assertion"},
		"machine":           {"az://models/m.bin", with(nil, "AZURE_POD_IDENTITY_AUTHORITY_HOST", machine), false, "machine"},
		"no machine":        {"az://models/m.bin", nil, true, ""},
		"not the machine":   {"az://models/m.bin", with(nil, "AZURE_POD_IDENTITY_AUTHORITY_HOST", machine, "AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential"), true, ""},
		"nobody":            {"az://models/m.bin", with(principalOf(), anonymousSetting, "true", "AZURE_STORAGE_KEY", "aGk="), true, ""},
		"another account":   {"az://other.blob.core.windows.net/models/m.bin", with(nil, "AZURE_STORAGE_SAS_TOKEN", "sig=wrong", "AZURE_STORAGE_KEY", "aGk="), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.change(func() { s.gave, s.open = nil, tt.open })
			if err := opened(t, tt.name, s.options(t, tt.env))(0); err != nil {
				t.Error(err)
			}
			if got := strings.Join(s.gave, " "); got != tt.gave {
				t.Errorf("tokens for %q, want %q", got, tt.gave)
			}
		})
	}
}

// Errors are one line with the next step, and nothing secret.
func TestErrors(t *testing.T) {
	s := newFake(t)
	s.put("m/model.gguf", []byte("GGUF"))
	s.put("both/a.gguf", []byte("GGUF"))
	s.put("both/b.gguf", []byte("GGUF"))
	s.put("odd//x", []byte("x"))
	answers := func(status int, code string, header ...string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			fail(w, status, code)
			return true
		}
	}
	set := func(pairs ...string) map[string]string {
		env := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
		}
		return env
	}
	principal := func(name, value string) map[string]string {
		env := principalOf()
		env[name] = value
		return env
	}
	good, sas := set("AZURE_STORAGE_KEY", accountKey), set("AZURE_STORAGE_SAS_TOKEN", sasToken)
	const model = "az://models/m/model.gguf"
	for _, tt := range []struct {
		name  string
		env   map[string]string
		fault func(w http.ResponseWriter, r *http.Request) bool
		want  string
		kind  error
	}{
		{model, nil, nil, model + ": it is not public, or does not exist, and there are no credentials; check the name and the account, or set AZURE_STORAGE_SAS_TOKEN, ", syscall.EACCES},
		{model, nil, answers(409, "PublicAccessNotPermitted"), model + ": it is not public, or does not exist", syscall.EACCES},
		{model, nil, answers(401, "NoAuthenticationInformation"), model + ": it is not public, or does not exist", syscall.EACCES},
		{"az://models/m/none.gguf", good, nil, "az://models/m/none.gguf: there is no such blob; check the name; one of a directory ends in /", fs.ErrNotExist},
		{"az://models/none/", good, nil, "az://models/none: there are no blobs whose names begin so; check the name", fs.ErrNotExist},
		{"az://others/m/", good, nil, "az://others/m: there is no such container; check the name, and the account (AZURE_STORAGE_ACCOUNT)", fs.ErrNotExist},
		{"az://models/both/", good, nil, "az://models/both: it holds 2 models: a.gguf, b.gguf; name one of them", tensorfs.ErrUnsupported},
		{"az://models/odd/", good, nil, `az://models/odd: "/x" is not the name of a file in a model; the server is at fault, or it is not a model`, nil},
		{"az://acct.blob.core.windows.net/models/m/none.gguf?" + sasToken, nil, nil, "az://acct.blob.core.windows.net/models/m/none.gguf: there is no such blob; ", fs.ErrNotExist},
		{"az://me:hunter2@models/x", good, nil, "az://...@models: credentials do not belong into a name; set AZURE_STORAGE_SAS_TOKEN, ", nil},
		{"az:///x", good, nil, `az:///x: "" is not the name of a container; write az://CONTAINER/BLOB or `, nil},
		{"az://Models/x", good, nil, `az://Models/x: "Models" is not the name of a container; write az://CONTAINER/BLOB or `, nil},
		{"az://acct.blob.evil.example.com/models/x", good, nil, `az://acct.blob.evil.example.com/models/x: "acct.blob.evil.example.com" is neither a container nor the host of an account in Azure; write `, nil},
		{"az://models/a/../../x", good, nil, "az://models/a/../../x: it is not the name of a blob that can be asked for; ", nil},
		{"az://models/x?comp=list&sig=hunter2", good, nil, "az://models/x: what follows ? is not a SAS token; write the token as it was made", nil},
		{"az://models/x?", nil, nil, "az://models/x: it is not public, or does not exist", nil},
		{model, set(accountSetting, ""), nil, model + ": it does not name its account, and neither does AZURE_STORAGE_ACCOUNT; set it, or write az://ACCOUNT.blob.core.windows.net/CONTAINER/BLOB", nil},

		{model, set("AZURE_STORAGE_KEY", "aHVudGVyMg=="), nil, model + ": the server does not accept the account's key; check AZURE_STORAGE_KEY or AZURE_STORAGE_CONNECTION_STRING, and this machine's clock", syscall.EACCES},
		{model, set("AZURE_STORAGE_SAS_TOKEN", "sig=hunter2"), nil, model + ": the server does not accept the SAS token; check that it is for this account and not over, or make a new one", syscall.EACCES},
		{model, set("AZURE_STORAGE_TOKEN", "hunter2"), nil, model + ": the server does not accept the token; get a new one, from the tenant of the account", syscall.EACCES},
		{model, sas, answers(403, "AuthorizationPermissionMismatch"), model + ": these credentials may not read it; give the identity the role Storage Blob Data Reader, or the SAS token the permissions r and l", syscall.EACCES},
		{model, sas, answers(403, "AuthorizationSourceIPMismatch"), model + ": the credentials, or the account's network rules, do not allow this request; check ", syscall.EACCES},
		{model, good, answers(403, "KeyBasedAuthenticationNotPermitted"), model + ": the account allows no keys, and no SAS tokens made by them; use an identity (AZURE_CLIENT_ID and so on)", syscall.EACCES},
		{model, good, answers(409, "BlobArchived"), model + ": it is archived; move it to the tier Hot, Cool or Cold first", syscall.EACCES},
		{model, good, answers(412, "ConditionNotMet"), model + `: the server answers 412 Precondition Failed; it calls this "ConditionNotMet"; check the name, and `, syscall.EIO},
		{model, good, answers(429, "TooManyRequests", "Retry-After", "55"), model + ": the server limits requests; try again in 55 s", syscall.EIO},
		{model, good, answers(503, "ServerBusy", "Retry-After", "55"), model + ": the server limits requests; try again in 55 s", syscall.EIO},
		{model, good, answers(500, "InternalError", "Retry-After", "55"), model + ": the server answers 500 Internal Server Error; try again later", syscall.EIO},

		{model, principal("AZURE_CLIENT_SECRET", "hunter2"), nil, "AZURE_CLIENT_SECRET: Microsoft Entra gives no token for these credentials (AADSTS7000215); check AZURE_TENANT_ID, AZURE_CLIENT_ID and its secret; for a public container set AZURE_SKIP_SIGNATURE=true", syscall.EACCES},
		{model, principal("AZURE_TENANT_ID", "../hunter2"), nil, "AZURE_TENANT_ID: it is not the name of a tenant", nil},
		{model, principal("AZURE_AUTHORITY_HOST", "https://evil.example.com"), nil, "AZURE_AUTHORITY_HOST: it is not a host of Microsoft's, so no secret is sent there", nil},
		{model, principal("AZURE_AUTHORITY_HOST", "http://login.microsoftonline.com"), nil, "AZURE_AUTHORITY_HOST: it is not a host of Microsoft's", nil},
		{model, principal("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com@evil.example.com"), nil, "AZURE_AUTHORITY_HOST: it is not a host of Microsoft's", nil},
		{model, set("AZURE_TOKEN_CREDENTIALS", "AzureCLICredential"), nil, "AZURE_TOKEN_CREDENTIALS: it names programs, which tensorfs does not run; set AZURE_STORAGE_TOKEN to what 'az account get-access-token ", nil},
		{model, set("AZURE_TENANT_ID", "t", "AZURE_CLIENT_ID", "c", "AZURE_CLIENT_CERTIFICATE_PATH", "/none"), nil, "AZURE_CLIENT_CERTIFICATE_PATH: tensorfs does not use certificates of service principals; set AZURE_CLIENT_SECRET", nil},
		{model, set("AZURE_TENANT_ID", "t", "AZURE_CLIENT_ID", "c", "AZURE_FEDERATED_TOKEN_FILE", "/none/token"), nil, "/none/token: ", fs.ErrNotExist},
		{model, set("AZURE_STORAGE_KEY", "hunter2!"), nil, "AZURE_STORAGE_KEY: its key is not the key of an account; set it right, or unset it", nil},
		{model, set("AZURE_STORAGE_SAS_TOKEN", "hunter2"), nil, "AZURE_STORAGE_SAS_TOKEN: it is not a SAS token (sv=...&sig=...); set it right, or unset it", nil},
		{model, set(accountSetting, "hunter2.example.com/"), nil, "AZURE_STORAGE_ACCOUNT: it is not the name of an account (3 to 24 small letters and digits)", nil},
		{model, set(connectionSetting, "hunter2"), nil, "AZURE_STORAGE_CONNECTION_STRING: it has neither AccountName nor BlobEndpoint", nil},
		{model, set(endpointSetting, "https://me:hunter2@host"), nil, "AZURE_STORAGE_BLOB_ENDPOINT: its endpoint is not an address like https://HOST", nil},
		{model, set(endpointSetting, "http://storage.example.com", "AZURE_STORAGE_SAS_TOKEN", "sig=hunter2"), nil, model + ": everybody on the way would see the SAS token at an address that begins with http://; use https://", nil},
	} {
		t.Run(tt.want, func(t *testing.T) {
			s.change(func() { s.fault, s.hosts = tt.fault, nil })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, _, err := Open(ctx, tt.name, s.options(t, tt.env))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || !strings.Contains(tt.want, "unter2") && strings.Contains(err.Error(), "unter2") {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v is not %v", err, tt.kind)
			}
			if slices.ContainsFunc(s.hosts, func(h string) bool { return strings.Contains(h, "example.com") }) {
				t.Errorf("%q were asked", s.hosts)
			}
		})
	}
}

// Names have the forms of other programs, and lead to the blob and nowhere else.
func TestNames(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	account := env(accountSetting, "acct")
	for _, tt := range []struct {
		name, shown, at string
		env             func(string) string
	}{
		{"az://c0n/a/b", "az://c0n/a/b", "https://acct.blob.core.windows.net/c0n/a/b", account},
		{"az://c0n", "az://c0n", "https://acct.blob.core.windows.net/c0n", account},
		{"az://$web/a b%20#", "az://$web/a b%20#", "https://acct.blob.core.windows.net/$web/a%20b%2520%23", account},
		{"az://zzz.blob.core.windows.net/c0n/a/b", "az://zzz.blob.core.windows.net/c0n/a/b", "https://zzz.blob.core.windows.net/c0n/a/b", account},
		{"az://zzz.dfs.core.windows.net/c0n/a/", "az://zzz.blob.core.windows.net/c0n/a", "https://zzz.blob.core.windows.net/c0n/a/", env()},
		{"az://c0n@zzz.dfs.core.windows.net/a", "az://zzz.blob.core.windows.net/c0n/a", "https://zzz.blob.core.windows.net/c0n/a", env()},
		{"az://c0n@zzz.z07.blob.storage.azure.net/a", "az://zzz.z07.blob.storage.azure.net/c0n/a", "https://zzz.z07.blob.storage.azure.net/c0n/a", env()},
		{"az://c0n/a", "az://c0n/a", "https://acct.blob.core.usgovcloudapi.net/c0n/a", env(connectionSetting, "AccountName=acct;EndpointSuffix=core.usgovcloudapi.net")},
		{"az://c0n/a", "az://c0n/a", "http://127.0.0.1:10000/devstoreaccount1/c0n/a", env(connectionSetting, "UseDevelopmentStorage=true;")},
		{"az://c0n/a", "az://c0n/a", "http://azurite:10000/acct/c0n/a", env(accountSetting, "acct", endpointSetting, "http://azurite:10000/acct/")},
	} {
		p, err := parse(tt.name)
		if err != nil {
			t.Error(err)
			continue
		}
		a, err := readSettings(p, tt.env)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := address(a.at, p.container, p.Key).String(); got != tt.at || p.String() != tt.shown {
			t.Errorf("%s: %s at %s", tt.name, p, got)
		}
	}
}

// A blob that is overwritten or deleted is ESTALE, whether the server looks at the ETag or not; what
// was read before can still be read.
func TestOverwritten(t *testing.T) {
	for name, again := range map[string]func(s *fake){
		"strict":   func(s *fake) { s.put("m.bin", append(make([]byte, 20<<20-1), 1)) },
		"careless": func(s *fake) { s.careless = true; s.put("m.bin", append(make([]byte, 20<<20-1), 1)) },
		"deleted":  func(s *fake) { delete(s.blobs, "m.bin") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.put("m.bin", make([]byte, 20<<20))
			read := opened(t, "az://models/m.bin", s.signed(t))
			if err := read(0); err != nil {
				t.Fatal(err)
			}
			again(s)
			if err := read(19 << 20); !errors.Is(err, syscall.ESTALE) || !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("%v", err)
			}
			if err := read(0); err != nil {
				t.Errorf("what was cached: %v", err)
			}
		})
	}
}

// Reading an archived blob is an error that tells how to restore it.
func TestArchived(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 100)).archived = true
	if err := opened(t, "az://models/m.bin", s.signed(t))(0); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "it is archived; move it to the tier") {
		t.Error(err)
	}
}

// Bytes that do not have the MD5 that the server states are an error.
func TestChecksums(t *testing.T) {
	for _, size := range []int{1000, 17 << 20} { // compared before the first read, and later
		s := newFake(t)
		s.put("m.bin", make([]byte, size))
		options := s.signed(t)
		verify := func() error {
			l, file, err := Open(t.Context(), "az://models/m.bin", options)
			if err != nil {
				t.Fatal(err)
			}
			f, err := l.OpenFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			return f.(interface {
				Verify(ctx context.Context, add func(n int64)) error
			}).Verify(t.Context(), func(int64) {})
		}
		if err := verify(); err != nil {
			t.Errorf("%v", err)
		}
		s.put("m.bin", append(make([]byte, size-1), 1)).sum = make([]byte, size)
		if err := verify(); !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), "have the digest md5:") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A token that ends while a file is read is renewed, once for all readers, whether the server
// refuses it or its time is over. Only if there is no new one, reads are EACCES.
func TestTokenEnds(t *testing.T) {
	for name, set := range map[string]func(s *fake) map[string]string{
		"refused": func(s *fake) map[string]string { s.revokes = true; return principalOf() },
		"over":    func(s *fake) map[string]string { s.life = 1; return principalOf() },
		"the machine's": func(s *fake) map[string]string {
			s.life = 1
			return map[string]string{"AZURE_POD_IDENTITY_AUTHORITY_HOST": serve(t, s.machine)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.put("m.bin", make([]byte, 40<<20))
			read := opened(t, "az://models/m.bin", s.options(t, set(s)))
			for off := int64(0); off < 40<<20; off += 10 << 20 {
				if err := read(off); err != nil {
					t.Fatal(err)
				}
				if s.revokes {
					s.change(func() { clear(s.tokens) })
				}
			}
			if gave, asked := len(s.gave), len(s.requests()); gave < 3 || gave > asked+1 {
				t.Errorf("%d tokens for %d requests", gave, asked)
			}
		})
	}
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	path := write(t, "my-subject-token")
	o := s.options(t, map[string]string{"AZURE_TENANT_ID": "my-tenant", "AZURE_CLIENT_ID": "me", "AZURE_FEDERATED_TOKEN_FILE": path})
	env, lookups := o.Env, new(atomic.Int64)
	o.Env = func(name string) string {
		if name == "AZURE_FEDERATED_TOKEN_FILE" {
			lookups.Add(1)
		}
		return env(name)
	}
	read := opened(t, "az://models/m.bin", o)
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.change(func() { clear(s.tokens); s.asked = nil })
	if err := read(19 << 20); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "Microsoft Entra gives no token for these credentials (AADSTS7000215)") {
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
	if err := os.WriteFile(path, []byte("my-subject-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(10 << 20); err != nil {
		t.Errorf("after a new token: %v", err)
	}
}

// A listing that leads elsewhere, or does not end, is refused.
func TestListings(t *testing.T) {
	page := func(rest string, blobs ...string) string {
		return "<EnumerationResults><Blobs>" + strings.Join(blobs, "") + "</Blobs>" + rest + "</EnumerationResults>"
	}
	blob := func(name, size, etag string) string {
		return fmt.Sprintf("<Blob><Name>%s</Name><Properties><Content-Length>%s</Content-Length><Etag>%s</Etag></Properties></Blob>", name, size, etag)
	}
	for body, want := range map[string]string{
		`x`:        "is not XML that can be read",
		`<Error/>`: `is not a listing, but "Error"`,
		page("<NextMarker>again</NextMarker>", blob("m/a.gguf", "4", "1")):                       "the server's listing does not end",
		page("", blob("n/a", "4", "1")):                                                          `the server lists "n/a", which was not asked for`,
		page("", blob("m/a", "-4", "1")):                                                         `gives "m/a" a size that no file can have`,
		page("", blob("m/a", "9223372036854775807", "1")):                                        `gives "m/a" a size that no file can have`,
		page("", blob("m/a", "4", "")):                                                           `gives "m/a" no ETag, so a change would not be seen`,
		page("", blob("m/a", "4", "W/1")):                                                        `no ETag`,
		page("", blob("m/a", "4", "1&#10;X: y")):                                                 `no ETag`,
		page("", blob("", "4", "1")):                                                             "a blob without a name",
		page("", blob("m/../x", "4", "1")):                                                       "is not the name of a file in a model",
		page("", blob("m/a", "4", "1"), blob("m/a/b", "4", "1")):                                 "is a file and also a directory",
		page("", strings.Replace(blob("m/%zz", "4", "1"), "<Name>", `<Name Encoded="true">`, 1)): "is not URL-encoded",
		page("", strings.Repeat("<Blob/>", remote.MaxKeys+1)):                                    "has too many blobs on a page",
	} {
		s := newFake(t)
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, body)
			return true
		}
		_, _, err := Open(t.Context(), "az://models/m/", s.signed(t))
		if err == nil || !strings.HasPrefix(err.Error(), "az://models/m: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %s", body, err, want)
		}
	}
	// Directories of an account with a hierarchical namespace are not files.
	folder := strings.Replace(blob("m/x", "0", "1"), "</Properties>", "<ResourceType>directory</ResourceType></Properties>", 1)
	older := strings.Replace(blob("m/y", "0", "1"), "</Properties>", "</Properties><Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>", 1)
	blobs, _, err := readPage([]byte(page("", folder, blob("m/x/a", "1", "1"), older, strings.Replace(blob("m/y%2Fb", "1", "1"), "<Name>", `<Name Encoded="true">`, 1))))
	if err != nil || len(blobs) != 2 || blobs[1].Key != "m/y/b" {
		t.Errorf("%v, %v", blobs, err)
	}
}

// Credentials are nowhere but in requests.
func TestSecrets(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 1000))
	o := s.options(t, principalOf())
	for _, name := range []string{"az://models/m.bin", "az://models/m.bin?" + sasToken} {
		if err := opened(t, name, o)(0); err != nil {
			t.Fatal(err)
		}
		s.change(func() {
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				fail(w, 403, r.Header.Get("Authorization")+r.URL.Query().Get("sig"))
				return true
			}
		})
		_, _, err := Open(t.Context(), name, o)
		o.Offline = "--offline"
		_, _, err2 := Open(t.Context(), strings.Replace(name, "m.bin", "n.bin", 1), o)
		testremote.NoSecrets(t, o.Store.Dir(), []string{"my-access-token", "my-client-secret", "signature"}, []string{fmt.Sprint(err, err2)})
		o.Offline = ""
		s.change(func() { s.fault = nil })
	}
}

// Blobs that were opened are opened where the server does not answer, and not where it refuses.
func TestSilence(t *testing.T) {
	s := newFake(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	s.put("m/model.gguf", want)
	s.open = true
	address := serve(t, s.storage)
	for _, name := range []string{"az://models/m/", "az://models/m/model.gguf"} {
		testremote.Silence{Name: name, Want: want, Options: Options{Env: func(name string) string {
			return map[string]string{endpointSetting: address, accountSetting: "acct"}[name]
		}},
			Open:  func(o Options) (*remote.Listing, string, error) { return Open(t.Context(), name, o) },
			Fault: func(answer func(http.ResponseWriter, *http.Request) bool) { s.change(func() { s.fault = answer }) },
		}.Test(t)
	}
}
