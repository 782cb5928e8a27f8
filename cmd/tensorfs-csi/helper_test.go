package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// asDriver has the test binary be the driver.
	asDriver = "TENSORFS_CSI_TEST_DRIVER"
	// programVariable names a tensorfs that is built already.
	programVariable = "TENSORFS_CSI_TEST_PROGRAM"
)

var (
	program    string // tensorfs
	testModels string // the directory of the test models
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asSanity); text != "" {
		os.Exit(runSanity(text))
	}
	if os.Getenv(asDriver) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	var err error
	if testModels, err = filepath.Abs("../../testdata"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // in many processes, and what mounts is no target
	if program = os.Getenv(programVariable); program == "" && !fuzzing {
		dir, err := os.MkdirTemp("", "tensorfs-csi-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "tensorfs")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/tensorfs")
		build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
			return 1
		}
	}
	return m.Run()
}

// needMounts skips a test where nothing can be mounted.
func needMounts(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root may mount; run the tests as root")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("NOT TESTED: no usable /dev/fuse: ", err)
	}
	f.Close()
}

// patience is how long a test waits for something that is not a question of speed.
const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A rig is a driver in a process of its own, and what kubelet has of it.
type rig struct {
	t      testing.TB
	dir    string // --dir
	pods   string
	flags  []string
	env    []string
	cmd    *exec.Cmd
	log    *syncBuffer
	conn   *grpc.ClientConn
	socket string
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newRig starts a driver.
func newRig(t testing.TB, flags ...string) *rig {
	t.Helper()
	needMounts(t)
	base, err := os.MkdirTemp("", "csi-") // sockets have short paths
	must(t, err)
	r := &rig{t: t, dir: filepath.Join(base, "d"), pods: filepath.Join(base, "pods"), log: new(syncBuffer), socket: filepath.Join(base, "csi.sock")}
	must(t, os.Mkdir(r.pods, 0o755))
	r.flags = append([]string{"--endpoint=unix://" + r.socket, "--node=n1", "--dir=" + r.dir, "--local=" + testModels, "--tensorfs=" + program, "--linger=0s", "--debug"}, flags...)
	t.Cleanup(func() { r.end(base) })
	r.start()
	return r
}

// start starts the driver, with more variables.
func (r *rig) start(env ...string) {
	r.t.Helper()
	self, err := os.Executable()
	must(r.t, err)
	r.cmd = exec.Command(self, r.flags...)
	r.cmd.Env = append(append(append(os.Environ(), asDriver+"=1"), r.env...), env...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	r.cmd.WaitDelay = time.Second
	must(r.t, r.cmd.Start())
	if r.conn == nil {
		r.conn, err = grpc.NewClient("unix://"+r.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
		must(r.t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		_, err := csi.NewIdentityClient(r.conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable { // that is the end of the last driver
			r.t.Fatalf("the driver: %v\n%s", err, r.log)
		}
	}
}

// kill kills only the driver, not its servers.
func (r *rig) kill() {
	_ = r.cmd.Process.Kill() // it may be gone
	_ = r.cmd.Wait()         // killed
}

// end removes everything, and reports a volume that was left.
func (r *rig) end(base string) {
	if r.conn != nil {
		r.conn.Close()
	}
	r.kill()
	if strings.Contains(r.log.String(), "DATA RACE") || strings.Contains(r.log.String(), "panic: ") {
		r.t.Error("the driver went wrong")
	}
	if r.t.Failed() {
		r.t.Logf("the driver's log:\n%s", r.log)
	}
	for _, key := range r.keys() { // tests that failed
		if pid := r.server(key); pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	table, err := mountTable()
	if err != nil {
		r.t.Error(err)
	}
	for _, m := range table {
		if strings.HasPrefix(m.Mountpoint, base+"/") {
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
				r.t.Error(err)
			}
		}
	}
	if err := os.RemoveAll(base); err != nil {
		r.t.Error(err)
	}
}

// keys are the servers whose mounts are there.
func (r *rig) keys() (keys []string) {
	table, err := mountTable()
	must(r.t, err)
	for _, m := range table {
		if filepath.Dir(m.Mountpoint) == filepath.Join(r.dir, "mounts") {
			keys = append(keys, filepath.Base(m.Mountpoint))
		}
	}
	return keys
}

// server is the pid of a server that answers, else 0.
func (r *rig) server(key string) int {
	var st struct{ PID int }
	m := mounts.Mount{Mountpoint: filepath.Join(r.dir, "mounts", key)}
	if err := m.Ask(&st); err != nil {
		return 0
	}
	return st.PID
}

// isClean reports whether nothing is left of volumes and servers.
func (r *rig) isClean() bool {
	table, err := mountTable()
	must(r.t, err)
	for _, m := range table {
		if strings.HasPrefix(m.Mountpoint, filepath.Dir(r.dir)+"/") && m.Mountpoint != filepath.Join(r.dir, "cache") {
			return false
		}
	}
	for _, dir := range []string{"volumes", "mounts"} {
		entries, err := os.ReadDir(filepath.Join(r.dir, dir))
		must(r.t, err)
		if len(entries) > 0 {
			return false
		}
	}
	pods, err := os.ReadDir(r.pods)
	must(r.t, err)
	return len(pods) == 0
}

// target is where a pod has its volume.
func (r *rig) target(pod string) string { return filepath.Join(r.pods, pod) }

type attrs map[string]string

// request is kubelet's request for a pod.
func (r *rig) request(pod string, a, secrets attrs) *csi.NodePublishVolumeRequest {
	context := attrs{"csi.storage.k8s.io/pod.name": pod, "csi.storage.k8s.io/ephemeral": "true"}
	for k, v := range a {
		context[k] = v
	}
	return &csi.NodePublishVolumeRequest{
		VolumeId: "csi-" + pod, TargetPath: r.target(pod), VolumeContext: context, Secrets: secrets, Readonly: true,
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	}
}

func (r *rig) node() csi.NodeClient { return csi.NewNodeClient(r.conn) }

func (r *rig) publish(pod string, a, secrets attrs) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := r.node().NodePublishVolume(ctx, r.request(pod, a, secrets))
	return err
}

func (r *rig) unpublish(pod string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := r.node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: r.target(pod)})
	return err
}

// mustPublish publishes volumes that show one model.
func (r *rig) mustPublish(a, secrets attrs, pods ...string) {
	r.t.Helper()
	for _, pod := range pods {
		if err := r.publish(pod, a, secrets); err != nil {
			r.t.Fatalf("publish %s: %v", pod, err)
		}
	}
}

func (r *rig) mustUnpublish(pods ...string) {
	r.t.Helper()
	for _, pod := range pods {
		if err := r.unpublish(pod); err != nil {
			r.t.Fatalf("unpublish %s: %v", pod, err)
		}
	}
}

// mustBeClean waits until nothing is left.
func (r *rig) mustBeClean() {
	r.t.Helper()
	eventually(r.t, "nothing is left of volumes and servers", r.isClean)
}

// device returns the device of the mount at a pod's target.
func (r *rig) device(pod string) string {
	r.t.Helper()
	m, err := top(r.target(pod))
	must(r.t, err)
	if m == nil {
		r.t.Fatalf("%s: nothing is mounted", r.target(pod))
	}
	return m.Device
}

// digest returns the digest of a file of a pod's volume.
func (r *rig) digest(pod, path string) string {
	r.t.Helper()
	sum, err := digest(filepath.Join(r.target(pod), path))
	must(r.t, err)
	return sum
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// wanted is the digest of what tensorfs cat gives.
func wanted(t testing.TB, model, path string) string {
	t.Helper()
	out, err := exec.Command(program, "cat", model, path).Output()
	must(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(out))
}

// quiet drops messages.
var quiet = slog.New(slog.DiscardHandler)
