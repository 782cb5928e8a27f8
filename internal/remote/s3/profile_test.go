package s3

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProfile: a profile is enough to name the server, its region, its certificates and the key, as for MinIO, Ceph and
// others.
func TestProfile(t *testing.T) {
	s := newFake(t)
	s.region = "RegionOne"
	s.put("m.bin", make([]byte, 100))
	secure := httptest.NewTLSServer(s)
	defer secure.Close()
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	empty := write("empty.pem", "no certificate\n")
	keys := "aws_access_key_id = " + goodKey + "\naws_secret_access_key = " + goodSecret + "\n"
	process := write("process.json", `{"Version": 1, "AccessKeyId": "`+goodKey+`", "SecretAccessKey": "`+goodSecret+`"}`)
	write(".aws/config", "[profile plain]\nregion = RegionOne\nendpoint_url = "+s.URL+"\n"+keys+
		"[profile service]\nregion = RegionOne\nservices = own\n"+keys+"[services own]\ns3 =\n  endpoint_url = "+s.URL+"\n"+
		"[profile secure]\nregion = RegionOne\nendpoint_url = "+secure.URL+"\nca_bundle = "+ca+"\n"+keys+
		"[profile unknown-authority]\nregion = RegionOne\nendpoint_url = "+secure.URL+"\n"+keys+
		"[profile no-authority]\nregion = RegionOne\nendpoint_url = "+secure.URL+"\nca_bundle = "+empty+"\n"+keys+
		"[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = plain\nendpoint_url = "+s.URL+"\n"+keys+
		"[profile half]\naws_access_key_id = "+goodKey+"\nendpoint_url = "+s.URL+"\n"+
		"[profile sso]\nsso_session = me\nsso_account_id = 1\nsso_role_name = r\nendpoint_url = "+s.URL+"\n[sso-session me]\nsso_start_url = https://sso.example.org\nsso_region = us-east-1\n"+
		"[profile process]\nregion = RegionOne\ncredential_process = cat "+process+"\nendpoint_url = "+s.URL+"\n"+
		"[profile process-fails]\nregion = RegionOne\ncredential_process = false hunter2\nendpoint_url = "+s.URL+"\n"+
		"[default]\nregion = RegionOne\nsso_start_url = https://sso.example.org\nendpoint_url = "+s.URL+"\n"+
		"[profile password]\nendpoint_url = https://me:hunter2@host\n"+keys)
	for _, tt := range []struct{ profile, want string }{
		{"plain", ""},
		{"service", ""},
		{"secure", ""},
		{"unknown-authority", "cannot be verified"},
		{"no-authority", "empty.pem: it holds no certificate; "},
		{"role", `AWS_PROFILE: the profile "role" assumes a role (role_arn), which tensorfs does not do; `},
		{"half", `AWS_PROFILE: the profile "half" has only one of aws_access_key_id and aws_secret_access_key; `},
		{"sso", `AWS_PROFILE: the profile "sso" gives no credentials by sso_session; `},
		{"process", ""},
		{"process-fails", `AWS_PROFILE: the profile "process-fails" gives no credentials by credential_process; `},
		{"", `AWS_PROFILE: the profile "default" gives no credentials by sso_start_url; `},
		{"password", "endpoint_url in ~/.aws/config: it is not an address like https://HOST; "},
	} {
		t.Run(tt.profile, func(t *testing.T) {
			setEnv(t, "AWS_PROFILE", tt.profile, "HOME", home)
			_, _, err := Open(t.Context(), "s3://models/m.bin", options(t))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
