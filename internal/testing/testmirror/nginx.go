package testmirror

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// Mirror is an nginx that keeps what a Hub sends.
type Mirror struct {
	URL     string // what HF_ENDPOINT has to be
	Data    string // directory of the pieces of files
	Answers string // directory of the answers of the Hub, with tokens in their keys
	Log     string // which requests came, and which were served from here
	Errors  string
}

// main is what Debian's nginx.conf has around the files of conf.d. A test changes no user
// and is no daemon.
const main = `
daemon off;
%spid %s/pid;
error_log %s/error.log notice;
worker_processes 2;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
	client_body_temp_path %[3]s/body; proxy_temp_path %[3]s/proxy; fastcgi_temp_path %[3]s/f; uwsgi_temp_path %[3]s/u; scgi_temp_path %[3]s/s;
	include %[4]s;
}
`

// Hub starts a mirror of a Hub, http://127.0.0.1:PORT, that ends with the test. conf is
// docs/examples/nginx-hub.conf; more are further texts to be replaced in it, in pairs. The
// test is skipped without nginx.
func Hub(t testing.TB, conf, hub string, more ...string) *Mirror {
	t.Helper()
	program := testremote.Program(t, "nginx")
	at, err := url.Parse(hub)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	listen, answers := testremote.Address(t), testremote.Address(t)
	m := &Mirror{"http://" + listen, filepath.Join(dir, "data"), filepath.Join(dir, "answers"), filepath.Join(dir, "hub.log"), filepath.Join(dir, "error.log")}
	pattern := strings.ReplaceAll(at.Host, ".", `\.`)
	made := string(text)
	for pairs := append([]string{
		`~^https://(?!huggingface\.co/)`, `~^http://(?!` + pattern + `/)`,
		`https://huggingface\.co`, `http://` + pattern,
		"https://huggingface.co", hub,
		"Host huggingface.co", "Host " + at.Host,
		"listen 8080", "listen " + listen + " backlog=4096",
		"listen 127.0.0.1:8079", "listen " + answers + " backlog=4096",
		"127.0.0.1:8079", answers,
		"resolver 10.96.0.10 ", "resolver 127.0.0.1 ", // never asked: all addresses are numbers
		"/var/cache/nginx/hub-data", m.Data,
		"/dev/shm/nginx-hub", m.Answers,
		"/var/log/nginx/hub.log", m.Log,
		"min_free=10g", "min_free=100m",
	}, more...); len(pairs) > 1; pairs = pairs[2:] {
		if !strings.Contains(made, pairs[0]) {
			t.Fatalf("%s does not say %q any more", conf, pairs[0])
		}
		made = strings.ReplaceAll(made, pairs[0], pairs[1])
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	inner, outer := filepath.Join(dir, "hub.conf"), filepath.Join(dir, "nginx.conf")
	for path, text := range map[string]string{inner: made, outer: fmt.Sprintf(main, user, dir, dir, inner)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start(t, listen, exec.Command(program, "-p", dir, "-e", m.Errors, "-c", outer))
	return m
}

// start starts nginx, waits until it listens, and ends it, with its workers, with the test.
func start(t testing.TB, address string, cmd *exec.Cmd) {
	t.Helper()
	testremote.Start(t, address, cmd, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // killed, it would leave its workers
		kill := time.AfterFunc(testlimit.Patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	})
}
