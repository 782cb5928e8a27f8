package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A contradictory command line ends with a line that names the next step.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		stdout string
		err    string
	}{
		{[]string{"--version"}, "tensorfs-csi ", ""},
		{[]string{"--help"}, "--keeper SOCKET", ""},
		{nil, "", "--node"},
		{[]string{"--node=n", "more"}, "", "only flags"},
		{[]string{"--node=n", "--nonsense"}, "", "nonsense"},
		{[]string{"--node=n", "--dir=x"}, "", "absolute"},
		{[]string{"--node=n", "--dir=/"}, "", "absolute"},
		{[]string{"--node=n", "--local=x"}, "", "absolute"},
		{[]string{"--node=n", "--linger=-1s"}, "", "--linger"},
		{[]string{"--node=n", "--dir=" + t.TempDir(), "--cache-size=much"}, "", "200G"},
		{[]string{"--node=n", "--dir=" + t.TempDir(), "--tensorfs=/nowhere"}, "", "/nowhere"},
		{[]string{"--node=n", "--dir=" + filepath.Join(t.TempDir(), strings.Repeat("long", 20))}, "", "shorter"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), append([]string{"--tensorfs=" + program}, c.args...), &stdout, &stderr) // the last one of a flag counts
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: error %v, want %q", c.args, err, c.err)
		}
		if !strings.Contains(stdout.String(), c.stdout) {
			t.Errorf("%q: it printed %q", c.args, stdout.String())
		}
	}
}

// freePort is an address without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// page is what the driver answers a browser.
func page(t *testing.T, address, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s: %s", path, resp.Status, b)
	}
	return string(b)
}

// Prometheus hears of calls, volumes and servers, kubelet of the driver's health.
func TestMetrics(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	r := newRig(t, "--metrics="+address)
	if got := page(t, address, "/healthz"); got != "ok\n" {
		t.Errorf("/healthz: %q", got)
	}
	r.mustPublish(with(llama(), "path", "f32"), nil, "a", "b")
	wantErr := r.publish("c", attrs{}, nil)
	if wantErr == nil {
		t.Error("a volume without a model is published")
	}
	name := "layers.0.attention.q.weight"
	st, err := os.Stat(filepath.Join(r.target("a"), name))
	must(t, err)
	r.digest("a", name)
	labels := fmt.Sprintf(`{model=%q,server=%q`, llama()["model"], r.keys()[0])
	text := page(t, address, "/metrics")
	for _, line := range []string{
		`tensorfs_csi_rpc_seconds_count{code="OK",rpc="NodePublishVolume"} 2`,
		`tensorfs_csi_rpc_seconds_count{code="InvalidArgument",rpc="NodePublishVolume"} 1`,
		"tensorfs_volumes 2",
		`tensorfs_servers{state="ok"} 1`,
		`tensorfs_servers{state="silent"} 0`,
		`tensorfs_takeovers_total{result="anew"} 0`,
		"tensorfs_server_start_seconds_count 1",
		fmt.Sprintf(`tensorfs_server_read_bytes_total%s,view="f32"} %d`, labels, st.Size()),
		"tensorfs_server_fetched_bytes_total" + labels + "} 0",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "tensorfs_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	r.mustUnpublish("a", "b", "c")
	r.mustBeClean()
}

// Kubelet finds a socket in its directory and asks who it is. A driver that it refuses offers itself again.
func TestRegistration(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "csi-reg-")
	must(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "reg.sock")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- register(ctx, socket, "/var/lib/kubelet/plugins/csi.tensorfs.dev/csi.sock", quiet) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	kubelet := registerapi.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	must(t, err)
	if info.Type != "CSIPlugin" || info.Name != driverName || info.Endpoint != "/var/lib/kubelet/plugins/csi.tensorfs.dev/csi.sock" || fmt.Sprint(info.SupportedVersions) != "[1.0.0]" {
		t.Error(info)
	}
	before, err := os.Stat(socket)
	must(t, err)
	for _, registered := range []bool{true, false} {
		_, err := kubelet.NotifyRegistrationStatus(ctx, &registerapi.RegistrationStatus{PluginRegistered: registered, Error: "no"})
		must(t, err)
	}
	eventually(t, "another socket is there", func() bool {
		now, err := os.Stat(socket)
		return err == nil && (!os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime())) // a number of a file may come back
	})
	stop()
	must(t, <-ended)
}
