package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func llama() attrs { return attrs{"model": filepath.Join(testModels, "gguf/llama-xs.q8_0.gguf")} }

func with(a attrs, pairs ...string) attrs {
	b := attrs{}
	for k, v := range a {
		b[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		b[pairs[i]] = pairs[i+1]
	}
	return b
}

// Pods share the server of a model, whichever part of it they see.
func TestSharing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustPublish(with(llama(), "path", "hf"), nil, "a", "a")
	r.mustPublish(with(llama(), "path", "gguf"), nil, "b")
	r.mustPublish(with(llama(), "views", "f32"), nil, "c")
	if a, b, c := r.device("a"), r.device("b"), r.device("c"); a != b || a == c {
		t.Errorf("devices of a, b, c: %s, %s, %s; want the first two equal", a, b, c)
	}
	model := llama()["model"]
	if got, want := r.digest("a", "model.safetensors"), wanted(t, model, "hf/model.safetensors"); got != want {
		t.Errorf("hf: %s, want %s", got, want)
	}
	if got, want := r.digest("b", "model.gguf"), wanted(t, model, "gguf/model.gguf"); got != want {
		t.Errorf("gguf: %s, want %s", got, want)
	}
	r.mustUnpublish("a", "c", "b", "b")
	r.mustBeClean()
}

// A pod with a user namespace of its own (hostUsers: false) reads the same bytes, also through passthrough: the runtime
// maps the owners of its volumes, and its processes are ordinary users of the node.
func TestUserNamespace(t *testing.T) {
	t.Run("alone", func(t *testing.T) { mappedVolumes(t, newRig(t)) })
	t.Run("with a keeper", func(t *testing.T) { mappedVolumes(t, newRig(t, "--keeper="+startKeeper(t))) })
}

func mappedVolumes(t *testing.T, r *rig) {
	model := filepath.Join(testModels, "quantise/models/dense256.gguf")
	plain, mapped := t.TempDir(), t.TempDir()
	must(t, os.Chmod(filepath.Dir(mapped), 0o755)) // for the pod
	if err := testmount.MapOwners(t, plain, plain); err != nil {
		t.Skip("NOT TESTED: owners of mounts are not mapped here: ", err)
	}
	for _, c := range []struct{ view, name string }{{"hf", "model.safetensors"}, {"gguf", "model.gguf"}} {
		r.mustPublish(attrs{"model": model, "path": c.view}, nil, c.view)
		if err := testmount.MapOwners(t, r.target(c.view), mapped); err != nil {
			t.Fatalf("%s: %v; since Linux 6.12 it is allowed", c.view, err)
		}
		cmd := exec.Command("sha256sum", c.name)
		cmd.Dir = mapped
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testmount.MappedRoot, Gid: testmount.MappedRoot}}
		out, err := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(string(out), " "); err != nil || got != wanted(t, model, c.view+"/"+c.name) {
			t.Errorf("%s: %s%v", c.view, out, err)
		}
		must(t, unix.Unmount(mapped, unix.MNT_DETACH))
		r.mustUnpublish(c.view)
	}
	r.mustBeClean()
}

// wantError checks the error of a call that failed; its text has to have some words.
func wantError(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v: %v, want %v", status.Code(err), err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v; want it to say %q", err, word)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %q", err)
	}
}

// What is asked for wrongly is refused before anything is started, and what cannot be had is said in the command line's words.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	link := filepath.Join(filepath.Dir(r.dir), "link.gguf")
	must(t, os.Symlink(llama()["model"], link))
	for _, c := range []struct {
		name    string
		attrs   attrs
		secrets attrs
		code    codes.Code
		words   []string
	}{
		{"no model", attrs{}, nil, codes.InvalidArgument, []string{"model"}},
		{"unknown attribute", with(llama(), "nonsense", "1"), nil, codes.InvalidArgument, []string{`"nonsense"`, "dequantise, ggufType, i2s, "}},
		{"model as flag", attrs{"model": "--allow-other"}, nil, codes.InvalidArgument, []string{"begins with a -"}},
		{"library", attrs{"model": "hf:"}, nil, codes.InvalidArgument, nil},
		{"library with slashes", attrs{"model": "ollama://"}, nil, codes.InvalidArgument, nil},
		{"relative path", attrs{"model": "model.gguf"}, nil, codes.InvalidArgument, []string{"hf:"}},
		{"http", attrs{"model": "http://169.254.169.254/m.gguf"}, nil, codes.InvalidArgument, nil},
		{"file of the node", attrs{"model": "/etc/passwd"}, nil, codes.InvalidArgument, []string{"below " + testModels}},
		{"file of the node by ..", attrs{"model": testModels + "/../../etc/passwd"}, nil, codes.InvalidArgument, []string{"below"}},
		{"link from elsewhere", attrs{"model": link}, nil, codes.OK, nil}, // it leads to what may be named
		{"credentials in the address", attrs{"model": "https://ann:secret@example.com/m.gguf"}, nil, codes.InvalidArgument, []string{"nodePublishSecretRef"}},
		{"strange credentials in the address", attrs{"model": "https://ann:sec%ret@example.com/m.gguf"}, nil, codes.InvalidArgument, nil},
		{"adapter of the node", with(llama(), "lora", "/etc:0.5"), nil, codes.InvalidArgument, []string{"below"}},
		{"long value", with(llama(), "views", strings.Repeat("f16,", 2000)), nil, codes.InvalidArgument, []string{"8000 bytes"}},
		{"NUL", with(llama(), "views", "f16\x00"), nil, codes.InvalidArgument, nil},
		{"path upwards", with(llama(), "path", "hf/../../x"), nil, codes.InvalidArgument, []string{"path"}},
		{"absolute path", with(llama(), "path", "/hf"), nil, codes.InvalidArgument, []string{"path"}},
		{"no such path", with(llama(), "path", "nowhere"), nil, codes.InvalidArgument, []string{"nowhere", "gguf, hf"}},
		{"path is a file", with(llama(), "path", "config.json"), nil, codes.InvalidArgument, []string{"config.json"}},
		{"warm", with(llama(), "warm", "hot"), nil, codes.InvalidArgument, []string{"mount or ready"}},
		{"offline", with(llama(), "offline", "1"), nil, codes.InvalidArgument, []string{"true or false"}},
		{"unknown secret", llama(), attrs{"password": "x"}, codes.InvalidArgument, []string{"token"}},
		{"view", with(llama(), "views", "nonsense"), nil, codes.InvalidArgument, []string{"nonsense"}},
		{"absent layout", attrs{"model": testModels + "/gguf/v1.gguf", "path": "hf"}, nil, codes.InvalidArgument, []string{"hf/ is absent: "}},
		{"missing model", attrs{"model": testModels + "/missing.gguf"}, nil, codes.NotFound, []string{"missing.gguf"}},
		{"malformed model", attrs{"model": testModels + "/gguf/tensors.tsv"}, nil, codes.FailedPrecondition, []string{"tensors.tsv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := *r
			rig.t = t
			err := rig.publish("pod", c.attrs, c.secrets)
			wantError(t, err, c.code, c.words...)
			if text := fmt.Sprint(err, rig.log); strings.Contains(text, "sec%ret") || strings.Contains(text, "ann:secret") {
				t.Errorf("a password is shown: %v", err)
			}
			rig.mustUnpublish("pod")
		})
	}
	for name, change := range map[string]func(*csi.NodePublishVolumeRequest){
		"no id":           func(q *csi.NodePublishVolumeRequest) { q.VolumeId = "" },
		"no target":       func(q *csi.NodePublishVolumeRequest) { q.TargetPath = "" },
		"relative target": func(q *csi.NodePublishVolumeRequest) { q.TargetPath = "x" },
		"unclean target":  func(q *csi.NodePublishVolumeRequest) { q.TargetPath += "/../x" },
		"no capability":   func(q *csi.NodePublishVolumeRequest) { q.VolumeCapability = nil },
		"block": func(q *csi.NodePublishVolumeRequest) {
			q.VolumeCapability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		},
	} {
		q := r.request("pod", llama(), nil)
		change(q)
		_, err := r.node().NodePublishVolume(t.Context(), q)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.mustBeClean()
}

// Calls are made again, and volumes asked for differently.
func TestAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustPublish(llama(), nil, "a")
	wantError(t, r.publish("a", with(llama(), "path", "hf"), nil), codes.AlreadyExists, r.target("a"))
	wantError(t, r.publish("a", with(llama(), "views", "f16"), nil), codes.AlreadyExists)
	r.mustPublish(llama(), nil, "a")
	if f, err := os.OpenFile(filepath.Join(r.target("a"), "README"), os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Error("a file can be opened for writing")
	}
	if n := strings.Count(mountsText(t), " "+r.target("a")+" "); n != 1 {
		t.Errorf("%d mounts at the target", n)
	}
	// Another volume's id does not take this one away.
	_, err := r.node().NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "other", TargetPath: r.target("a")})
	must(t, err)
	r.device("a")
	r.mustUnpublish("a", "a", "never")
	r.mustBeClean()
}

func mountsText(t *testing.T) string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return string(b)
}

// Twenty pods at once are one server, which ends after the last of them.
func TestManyPods(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--linger=300ms")
	var pods []string
	for i := range 20 {
		pods = append(pods, fmt.Sprintf("p%d", i))
	}
	each := func(do func(pod string) error) {
		t.Helper()
		var all sync.WaitGroup
		for _, pod := range pods {
			all.Go(func() {
				if err := do(pod); err != nil {
					t.Errorf("%s: %v", pod, err)
				}
			})
		}
		all.Wait()
	}
	each(func(pod string) error {
		return r.publish(pod, with(llama(), "path", []string{"hf", "gguf", "."}[len(pod)%3]), nil)
	})
	keys := r.keys()
	if len(keys) != 1 {
		t.Fatalf("%d servers", len(keys))
	}
	pid := r.server(keys[0])
	rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	last := pods[0]
	pods = pods[1:]
	each(r.unpublish)
	if got := r.server(keys[0]); got != pid {
		t.Errorf("with a pod left, the server is %d; it was %d", got, pid)
	}
	r.mustUnpublish(last)
	r.mustPublish(llama(), nil, last) // a pod that starts again finds the server
	if got := r.server(keys[0]); got != pid {
		t.Errorf("within --linger the server is %d; it was %d", got, pid)
	}
	r.mustUnpublish(last)
	r.mustBeClean()
	eventually(t, "the server ends", func() bool { return unix.Kill(pid, 0) != nil })
}

// What is wrong with a target or a disk is said, and taken away by the next unpublish.
func TestOddTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, os.WriteFile(r.target("file"), nil, 0o600))
	wantError(t, r.publish("file", llama(), nil), codes.FailedPrecondition, "not a directory")
	r.mustUnpublish("file")

	must(t, os.Mkdir(r.target("mounted"), 0o755))
	must(t, unix.Mount("tmpfs", r.target("mounted"), "tmpfs", 0, ""))
	wantError(t, r.publish("mounted", llama(), nil), codes.FailedPrecondition, "something else is mounted", "tmpfs")
	wantError(t, r.unpublish("mounted"), codes.FailedPrecondition, "something else is mounted")
	must(t, unix.Unmount(r.target("mounted"), 0))
	r.mustUnpublish("mounted")

	// Records are on another file system, which is full.
	must(t, unix.Mount("tmpfs", filepath.Join(r.dir, "volumes"), "tmpfs", 0, "size=16k"))
	fill, err := os.Create(filepath.Join(r.dir, "volumes", "fill"))
	must(t, err)
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	must(t, fill.Close())
	wantError(t, r.publish("full", llama(), nil), codes.ResourceExhausted, "no space left")
	must(t, os.Remove(fill.Name()))
	r.mustPublish(llama(), nil, "full")
	r.mustUnpublish("full")
	eventually(t, "the driver has read the records", func() bool { return unix.Unmount(filepath.Join(r.dir, "volumes"), 0) == nil })
	r.mustBeClean()
}

// Damaged records and volumes with wrong ids take nothing with them.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustPublish(llama(), nil, "a", "b")
	q := r.request("other", llama(), nil)
	q.TargetPath = r.target("b")
	_, err := r.node().NodePublishVolume(t.Context(), q)
	wantError(t, err, codes.FailedPrecondition, "csi-b")
	record := layout(r.dir).record("csi-a", r.target("a"))
	for _, text := range []string{"", "{", `{"volume":"x"}`} {
		must(t, os.WriteFile(record, []byte(text), 0o600))
		r.mustPublish(llama(), nil, "a")
		must(t, os.WriteFile(record, []byte(text), 0o600))
		r.kill()
		r.start()
		r.mustUnpublish("a")
		if _, err := os.Stat(r.target("a")); err == nil {
			t.Errorf("%q: the target is left", text)
		}
		r.mustPublish(llama(), nil, "a")
	}
	r.mustUnpublish("a", "b")
	r.mustBeClean()
}

// Records of pods that were deleted while no driver was there go after a while.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := layout(t.TempDir())
	must(t, d.prepare())
	f := &fleet{dir: d, log: quiet, all: map[string]*server{}, counters: newCounters()}
	here := t.TempDir()
	for _, target := range []string{here, filepath.Join(here, "gone")} {
		must(t, d.write(&record{Volume: "v", Target: target, Key: "k"}))
	}
	gone := map[string]time.Time{}
	now := time.Now()
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {goneTime - time.Second, 2}, {goneTime, 1}, {10 * goneTime, 1}} {
		f.sweepOnce(gone, now.Add(c.after))
		all, err := d.records()
		if must(t, err); len(all) != c.left {
			t.Errorf("after %v there are %d records, want %d", c.after, len(all), c.left)
		}
	}
}

// Kubelet hears how large a volume is, and that its model was changed.
func TestStats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model := filepath.Join(t.TempDir(), "model.gguf")
	b, err := os.ReadFile(llama()["model"])
	must(t, err)
	must(t, os.WriteFile(model, b, 0o600))
	r.flags = append(r.flags, "--local="+filepath.Dir(model))
	r.kill()
	r.start()
	r.mustPublish(attrs{"model": model, "path": "gguf"}, nil, "a")
	stats := func() *csi.NodeGetVolumeStatsResponse {
		s, err := r.node().NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: "csi-a", VolumePath: r.target("a")})
		must(t, err)
		return s
	}
	s := stats()
	if s.VolumeCondition.Abnormal {
		t.Error(s.VolumeCondition)
	}
	for _, u := range s.Usage {
		if u.Total <= 0 || u.Used <= 0 || u.Used > u.Total {
			t.Error(u)
		}
	}
	must(t, os.WriteFile(model, append(b, 0), 0o600))
	if _, err := os.ReadFile(filepath.Join(r.target("a"), "model.gguf")); err == nil {
		t.Error("a changed model is read")
	}
	eventually(t, "the condition is abnormal", func() bool { return stats().VolumeCondition.Abnormal })
	if c := stats().VolumeCondition; !strings.HasPrefix(c.Message, "changed: ") || !strings.Contains(c.Message, "model.gguf") {
		t.Error(c)
	}
	key := r.keys()[0]
	must(t, unix.Kill(r.server(key), unix.SIGSTOP))
	eventually(t, "a stopped server does not answer", func() bool { // its threads stop one after the other
		return stats().VolumeCondition.Message == "the server does not answer"
	})
	r.mustUnpublish("a")
	r.mustBeClean()
}
