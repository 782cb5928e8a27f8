package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// copyTree copies the files of a directory.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// secretModel begins the name of the model outside of --local: only its README has it.
const secretModel = "node-secret"

// strangersModels is a directory of models, which pods may write, beside one that they may not read.
func strangersModels(t testing.TB) (local, secret string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	local, secret = filepath.Join(base, "local"), filepath.Join(base, secretModel)
	copyTree(t, filepath.Join(testModels, "lora/plain-f16-f16"), local)
	copyTree(t, filepath.Join(testModels, "lora/plain-f16-f16"), secret)
	must(t, os.Chmod(secret, 0o700))
	for _, file := range []string{"base/config.json", "adapter0/adapter_config.json"} { // other numbers than in local
		path := filepath.Join(secret, file)
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte(strings.Replace(string(b), "{", `{"`+secretModel+`": 1,`, 1)), 0o600))
	}
	return local, secret
}

// exchange replaces a path by a link.
func exchange(t testing.TB, path, target string) {
	t.Helper()
	must(t, os.Rename(path, path+".away"))
	must(t, os.Symlink(target, path))
}

// What became a link out of --local after it was published is opened by no later server, and the volume does not show it.
func TestLinkedLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, swapped string }{
		{"model", "sub/base"}, {"folder", "sub"}, {"weights", "sub/base/model.safetensors"}, {"adapter", "sub/adapter0"},
	} {
		for _, how := range []string{"killed", "keeper", "restart"} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				local, secret := strangersModels(t)
				for _, dir := range []string{local, secret} {
					must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
					for _, name := range []string{"base", "adapter0"} {
						must(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, "sub", name)))
					}
				}
				swapped := filepath.Join(local, c.swapped)
				flags := []string{"--local=" + local}
				if how == "keeper" {
					flags = append(flags, "--keeper="+startKeeper(t))
				}
				r := newRig(t, flags...)
				a := attrs{"model": filepath.Join(local, "sub/base"), "lora": filepath.Join(local, "sub/adapter0") + ":0.5"}
				r.mustPublish(a, nil, "a")
				before, err := os.ReadFile(filepath.Join(r.target("a"), "config.json"))
				must(t, err)
				exchange(t, swapped, filepath.Join(secret, c.swapped))
				pid := r.server(r.keys()[0])
				if how == "restart" {
					r.kill()
				}
				must(t, unix.Kill(pid, unix.SIGKILL))
				if how == "restart" {
					r.start()
				}
				eventually(t, "a server refused", func() bool {
					return strings.Contains(r.log.String(), "leads out of "+local) || strings.Contains(r.log.String(), "link that leaves "+local)
				})
				if b, err := os.ReadFile(filepath.Join(r.target("a"), "config.json")); err == nil {
					t.Errorf("the volume shows %d bytes", len(b))
				}
				if err := r.publish("a", a, nil); err == nil {
					t.Error("it is published again")
				}
				// It is there again when the model is.
				must(t, os.Remove(swapped))
				must(t, os.Rename(swapped+".away", swapped))
				eventually(t, "it is published", func() bool { return r.publish("a", a, nil) == nil }) // a server may be refusing still
				if b, err := os.ReadFile(filepath.Join(r.target("a"), "config.json")); string(b) != string(before) {
					t.Errorf("the volume has %d other bytes: %v", len(b), err)
				}
				r.mustUnpublish("a")
				r.mustBeClean()
			})
		}
	}
}

// A server reads nothing outside of --local, by which way ever a model leads there.
func TestOutside(t *testing.T) {
	t.Parallel()
	local, secret := strangersModels(t)
	at := func(name string) string { return filepath.Join(local, name) }
	const linear = "merge_method: linear\ndtype: float32\nmodels:\n- model: "
	const weight = "\n  parameters: {weight: 1}\n"
	for name, text := range map[string]string{
		"abs.yml": linear + filepath.Join(secret, "base") + weight, "up.yml": linear + "../" + secretModel + "/base" + weight, "link.yml": linear + "out/base" + weight, "whole.yml": linear + "outbase" + weight,
		"adapter.yml": linear + "base+out/adapter0" + weight, "name.yml": linear + "hf:org/name" + weight, "org.yml": linear + "org/name" + weight, "ollama.yml": linear + "ollama:name" + weight,
		"tok.yml": linear + "base" + weight + "tokenizer_source: out/base\n",
	} {
		must(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	must(t, os.Symlink(secret, at("out")))
	must(t, os.Symlink(filepath.Join(secret, "base"), at("outbase")))
	must(t, os.Mkdir(at("files"), 0o755))
	must(t, os.Symlink(filepath.Join(secret, "base/model.safetensors"), at("files/model.safetensors")))
	must(t, os.Symlink(filepath.Join(secret, "base/config.json"), at("files/config.json")))
	must(t, os.Mkdir(at("several"), 0o755))
	must(t, os.Symlink("../base", at("several/one")))
	must(t, os.Symlink(secret, at("several/two")))
	r := newRig(t, "--local="+local)
	for _, a := range []attrs{
		{"model": at("abs.yml")}, {"model": at("up.yml")}, {"model": at("link.yml")}, {"model": at("whole.yml")}, {"model": at("adapter.yml")}, {"model": at("name.yml")}, {"model": at("org.yml")}, {"model": at("ollama.yml")},
		{"model": at("files")}, {"model": at("several")}, {"model": at("out/base")}, {"model": at("outbase")}, {"model": at("base"), "lora": at("out/adapter0") + ":1"}, {"model": local},
	} {
		err := r.publish("pod", with(a, "offline", "true"), nil)
		if err == nil {
			names, _ := os.ReadDir(r.target("pod"))
			t.Errorf("%v is published: %v", a, names)
		} else if c := status.Code(err); c != codes.InvalidArgument && c != codes.FailedPrecondition && c != codes.NotFound {
			t.Errorf("%v: %v", a, err)
		}
		r.mustUnpublish("pod")
	}
	if err := r.publish("pod", attrs{"model": at("tok.yml")}, nil); err == nil {
		for _, path := range []string{"config.json", "hf/config.json", "hf/tokenizer.json"} {
			if b, _ := os.ReadFile(filepath.Join(r.target("pod"), path)); strings.Contains(string(b), secretModel) {
				t.Errorf("%s shows a file outside of --local", path)
			}
		}
	}
	r.mustUnpublish("pod")
	r.mustPublish(attrs{"model": at("base"), "lora": at("adapter0") + ":0.5", "path": "f32"}, nil, "sound")
	r.mustUnpublish("sound")
	r.mustBeClean()
}

// A volume's directory and its mount point are reached without links and other mounts.
func TestHandles(t *testing.T) {
	t.Parallel()
	needMounts(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(base, name) }
	must(t, os.MkdirAll(at("m/hf/sub"), 0o755))
	must(t, os.MkdirAll(at("m/mounted/sub"), 0o755))
	must(t, os.MkdirAll(at("pods/p"), 0o755))
	must(t, os.MkdirAll(at("outside/x"), 0o755))
	must(t, os.WriteFile(at("m/file"), nil, 0o600))
	for name, target := range map[string]string{"m/out": "../outside", "m/abs": at("outside"), "m/in": "hf", "m/hf/back": "..", "pods/link": at("outside"), "link": "pods"} {
		must(t, os.Symlink(target, at(name)))
	}
	must(t, unix.Mount("tmpfs", at("m/mounted"), "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at("m/mounted"), unix.MNT_DETACH)) })
	for _, c := range []struct {
		path, target string
		taken        bool
	}{
		{"hf", "pods/p", true}, {"hf/sub", "pods/p", true}, {"", "pods/p", true},
		{"out", "pods/p", false}, {"out/x", "pods/p", false}, {"abs", "pods/p", false}, {"in", "pods/p", false}, {"hf/back/hf", "pods/p", false}, {"mounted", "pods/p", false}, {"../outside", "pods/p", false},
		{"hf/../hf/../../outside", "pods/p", false}, {"file", "pods/p", false}, {"nothing", "pods/p", false}, {at("outside"), "pods/p", false},
		{"hf", "pods/link", false}, {"hf", "pods/link/x", false}, {"hf", "link/p", false}, {"hf", "m/file", false}, {"hf", "pods/nothing", false},
	} {
		err := bind(at("m"), c.path, at(c.target))
		if (err == nil) != c.taken {
			t.Errorf("%s at %s: %v", c.path, c.target, err)
		}
		if err == nil {
			if err := protect(at(c.target)); err != nil {
				t.Error(err)
			}
			must(t, unix.Unmount(at(c.target), unix.MNT_DETACH))
		}
	}
	for target, taken := range map[string]bool{"pods/p": true, "pods/new": true, "pods/link": false, "pods/link/y": false, "link/y": false, "m/file": false, "nowhere/y": false} {
		if err := makeTarget(at(target)); (err == nil) != taken {
			t.Errorf("target %s: %v", target, err)
		}
	}
	if _, err := os.Lstat(at("outside/y")); err == nil {
		t.Error("a directory was made behind a link")
	}
}

// A target that is a link at times never has a volume mounted where it leads.
func TestTargetExchanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	outside := filepath.Join(filepath.Dir(r.dir), "outside")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.Symlink(outside, r.target("link")))
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, r.target("a"), unix.AT_FDCWD, r.target("link"), unix.RENAME_EXCHANGE) // not while it is mounted, or is not there
		}
	}()
	for range 30 {
		_ = r.publish("a", with(llama(), "path", "hf"), nil)
		if m, err := top(outside); err != nil || m != nil {
			t.Fatalf("a volume is mounted at %s: %v", outside, err)
		}
		_ = r.unpublish("a")
	}
	over.Store(true)
	<-ended
	for _, name := range []string{"a", "link"} {
		if err := os.Remove(r.target(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			must(t, unix.Unmount(r.target(name), unix.MNT_DETACH))
			must(t, os.Remove(r.target(name)))
		}
	}
	r.mustUnpublish("a")
	must(t, os.Remove(outside))
	r.mustBeClean()
}
