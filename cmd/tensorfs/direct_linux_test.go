package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"golang.org/x/sys/unix"
)

var directRounds = flag.Int("direct-rounds", 50, "how often TestDirectNginx asks for each file")

// directConf has nginx open files as usual and then switch their descriptors to direct I/O.
const directConf = `
daemon off;
%[1]spid %[2]s/pid;
error_log %[2]s/error.log warn;
events { }
http {
	access_log off;
	client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
	server { listen %[3]s; root %[4]s; directio 512; sendfile %[5]s; }
}
`

// TestDirectNginx has nginx send files of a mount by direct I/O while another program has them mapped.
func TestDirectNginx(t *testing.T) {
	program := testremote.Program(t, "nginx")
	dir := mounted(t, filepath.Join("..", "..", "testdata", "quantise", "models", "dense256.gguf"))
	for _, sendfile := range []string{"on", "off"} {
		t.Run("sendfile "+sendfile, func(t *testing.T) {
			own, address, user := t.TempDir(), testremote.Address(t), ""
			if os.Getuid() == 0 {
				user = "user root;\n"
			}
			conf, log := filepath.Join(own, "nginx.conf"), filepath.Join(own, "error.log")
			must(t, os.WriteFile(conf, fmt.Appendf(nil, directConf, user, own, address, dir, sendfile), 0o600))
			cmd := exec.Command(program, "-p", own, "-e", log, "-c", conf)
			testremote.Start(t, address, cmd, func() {
				_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
				_ = cmd.Wait()
			})
			for _, name := range []string{"hf/model.safetensors", "gguf/model.gguf", "npy/token_embedding.weight.npy"} {
				sentDirectly(t, "http://"+address+"/"+name, filepath.Join(dir, name))
			}
			if b, err := os.ReadFile(log); err != nil || len(b) > 0 {
				t.Errorf("nginx says %q, %v", b, err)
			}
		})
	}
}

// sentDirectly requests a file repeatedly, from several clients, while it is mapped.
func sentDirectly(t *testing.T, url, path string) {
	f, err := os.Open(path)
	must(t, err)
	st, err := f.Stat()
	must(t, err)
	want, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	must(t, f.Close())
	defer unix.Munmap(want)
	const clients = 4
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for round := client; round < *directRounds; round += clients {
				r, err := http.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
					t.Errorf("%s, round %d: %s, %d of %d bytes, %v", url, round, r.Status, len(got), len(want), err)
					return
				}
			}
		})
	}
	wg.Wait()
}
