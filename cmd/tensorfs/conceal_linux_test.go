package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// leaves are the commands below a command that do something.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	if c.Runnable() {
		all = append(all, c)
	}
	return all
}

// TestSecretsOfAddresses gives every command addresses with passwords and keys, in right and wrong
// forms, and searches all output for these. A new command is tested without a change here.
func TestSecretsOfAddresses(t *testing.T) {
	apart(t)
	s := testweb.New(t)
	b, err := os.ReadFile(q8)
	must(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	s.Put("/m.gguf", bytes.NewReader(b))
	host := strings.TrimPrefix(s.URL, "http://")
	addresses := map[string]string{
		"good":     "http://user:S3CRETPW@" + host + "/m.gguf?sig=S3CRETSIG#S3CRETFRAGMENT",
		"missing":  "http://S3CRETUSER@" + host + "/none.gguf?sig=S3CRETSIG",
		"refused":  "http://user:S3CRETPW@127.0.0.1:1/m.gguf?sig=S3CRETSIG",
		"unknown":  "ftp://user:S3CRETPW@" + host + "/m.gguf?sig=S3CRETSIG",
		"blank":    "http://user:S3CRET PW@" + host + "/m.gguf?sig=S3CRET SIG",
		"control":  "http://user:S3CRET\u202ePW@" + host + "/m.gguf?sig=S3CRET\tSIG",
		"bad port": "http://user:S3CRETPW@" + host + "x/m.gguf?sig=S3CRETSIG",
	}
	t.Cleanup(func() {
		all, _ := mounts.List()
		for _, m := range all {
			if strings.HasPrefix(m.Mountpoint, dir) {
				mounts.Unmount(m.Mountpoint, true)
			}
		}
	})
	check := func(t *testing.T, stdout, stderr string) {
		t.Helper()
		for _, text := range []string{stdout, stderr} {
			if strings.Contains(text, "S3CRET") || strings.Contains(text, "SIG") {
				t.Errorf("it says %q", text)
			}
		}
	}
	forms := func(kind, address string) [][]string {
		usual := [][]string{{address}, {address, "x"}, {"x", address}, {address, address}}
		switch kind {
		case "good":
			return append(usual, [][]string{
				{address, "x", "y", "z"}, {"--nonsense", address}, {"--nonsense=" + address}, {"--json", address}, {"--cache", address, "x"},
				{address, "config.json"}, {address, "raw/none"}, {"--offline", address}, {"--views", "none", address}, {"--", address, address, address},
			}...)
		case "refused": // which is tried again for a while
			return nil
		}
		return usual
	}
	for _, c := range leaves(newRoot()) {
		words := strings.Fields(c.CommandPath())[1:]
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			for kind, address := range addresses {
				if c.Name() == "serve" && kind == "good" { // which serves, see TestForegroundHides
					continue
				}
				for _, args := range forms(kind, address) {
					args = append(words[:len(words):len(words)], args...)
					if c.Name() == "serve" { // which becomes another process
						out, _ := program(t, args...).CombinedOutput()
						check(t, "", string(out))
						continue
					}
					_, stdout, stderr := command(args...)
					check(t, stdout, stderr)
				}
			}
		})
	}
	_, stdout, stderr := command("info", "--timeout", "100ms", addresses["refused"])
	check(t, stdout, stderr)
	for kind, address := range addresses {
		if kind == "refused" {
			continue
		}
		t.Run("mount.tensorfs "+kind, func(t *testing.T) {
			for _, args := range [][]string{{address, "m"}, {address, address}, {"x", address}, {address}, {address, "m", "-o", address}, {address, "m", "-N", address}} {
				var stdout, stderr bytes.Buffer
				execute(system(runtime.GOOS).mountHelper(), args, &stdout, io.Writer(&stderr))
				check(t, stdout.String(), stderr.String())
			}
		})
	}
}

func TestPublicText(t *testing.T) {
	const address = "https://u:p w@h/m?k=a b"
	for _, arg := range []string{address, "--lora=" + address, "-o=" + address} {
		if got := cli.PublicText(address+": bad", []string{"info", arg}); got != "https://...: bad" {
			t.Errorf("%s: %q", arg, got)
		}
	}
}

// A server in the foreground, which a service is, hides its command line and its
// environment as one in the background does.
func TestForegroundHides(t *testing.T) {
	apart(t)
	ownStates(t)
	s := testweb.New(t)
	b, err := os.ReadFile(q8)
	must(t, err)
	s.Put("/m.gguf", bytes.NewReader(b))
	local, err := filepath.Abs(q8)
	must(t, err)
	for name, model := range map[string]string{"remote": strings.Replace(s.URL, "http://", "http://user:S3CRETPW@", 1) + "/m.gguf?sig=S3CRETSIG", "local": local} {
		for _, kind := range []string{"mount", "serve"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				args, dir := []string{"serve", "--views", "f16", model}, ""
				if kind == "mount" {
					dir = mountDir(t)
					args = []string{"mount", "-f", "-o", "ro,views=f16,debug,env.HF_HOME=/srv/hf", model, dir}
				}
				env := []string{"HF_TOKEN=S3CRET", "AWS_SECRET_ACCESS_KEY=S3CRET", "ANYTHING=S3CRET", "NOTIFY_SOCKET=", "JOURNAL_STREAM=1:2"}
				log, err := os.Create(filepath.Join(t.TempDir(), "log"))
				must(t, err)
				defer log.Close()
				c, said := startedAs(t, nil, log, env, args...)
				proc := "/proc/" + strconv.Itoa(c.Process.Pid)
				for _, file := range []string{"cmdline", "environ"} {
					text, err := os.ReadFile(filepath.Join(proc, file))
					if err != nil || bytes.Contains(text, []byte("S3CRET")) || !bytes.Contains(text, []byte("f16")) && file == "cmdline" {
						t.Errorf("%s: %q, %v", file, text, err)
					}
					if file == "environ" && (!bytes.Contains(text, []byte("PATH=")) || !bytes.Contains(text, []byte("JOURNAL_STREAM=")) || kind == "mount" && !bytes.Contains(text, []byte("HF_HOME=/srv/hf"))) {
						t.Errorf("its environment lacks something: %q", text)
					}
				}
				if in, err := os.Readlink(proc + "/fd/0"); err != nil || in != os.DevNull {
					t.Errorf("standard input: %s, %v", in, err)
				}
				if strings.Contains(said, "S3CRET") {
					t.Errorf("it says %q", said)
				}
				if dir != "" {
					if entries, err := os.ReadDir(filepath.Join(dir, "f16")); err != nil || len(entries) == 0 {
						t.Errorf("f16: %v, %v", entries, err)
					}
					if st := statusOf(t, dir); st == nil || st.PID != c.Process.Pid || strings.Contains(st.Model, "S3CRET") {
						t.Errorf("status: %+v", st)
					}
				}
				stillThere(t, c, said)
				if text, err := os.ReadFile(log.Name()); err != nil || bytes.Contains(text, []byte("S3CRET")) || kind == "mount" && len(text) == 0 {
					t.Errorf("its log: %q, %v", text, err)
				}
			})
		}
	}
}
