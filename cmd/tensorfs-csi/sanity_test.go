package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// asSanity has the test binary be csi-sanity, with a suite as JSON: a process runs one.
const asSanity = "TENSORFS_CSI_TEST_SANITY"

type suite struct {
	Address, Controller, Dir, Focus string
	Parameters                      map[string]string
}

// specLine begins the lines that say how a spec ended: its state, a tab, its name.
const specLine = "spec\t"

type failer struct{ failed bool }

func (f *failer) Fail() { f.failed = true }

// runSanity is the process of a suite. It returns its exit code.
func runSanity(text string) int {
	var s suite
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Println(err)
		return 2
	}
	config := sanity.NewTestConfig()
	config.Address, config.DialOptions = dialled(s.Address)
	if s.Controller != "" {
		config.ControllerAddress, config.ControllerDialOptions = dialled(s.Controller)
	}
	config.TargetPath, config.StagingPath = filepath.Join(s.Dir, "target"), filepath.Join(s.Dir, "staging")
	config.TestVolumeParameters = s.Parameters
	sc := sanity.GinkgoTest(&config)
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.ReportAfterEach(func(r types.SpecReport) {
		fmt.Printf("%s%v\t%s\n", specLine, r.State, r.FullText())
	})
	suiteConfig, reporter := ginkgo.GinkgoConfiguration()
	if s.Focus != "" {
		suiteConfig.FocusStrings = []string{s.Focus}
	}
	reporter.NoColor = true
	f := new(failer)
	ginkgo.RunSpecs(f, "CSI", suiteConfig, reporter)
	sc.Finalize()
	if f.failed {
		return 1
	}
	return 0
}

// dialled returns an address for csi-sanity, which waits in vain for a connection that is there before it looks.
func dialled(socket string) (string, []grpc.DialOption) {
	return "passthrough:///localhost" + socket, []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			time.Sleep(time.Second)
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}),
	}
}

// The tests of the CSI project.
func TestSanity(t *testing.T) {
	t.Parallel()
	needMounts(t)
	both := newRig(t, "--controller")
	alone := newRig(t)
	for _, c := range []struct {
		name   string
		suite  suite
		rig    *rig
		passed int
	}{
		{"node with controller", suite{Address: both.socket}, both, 32},
		// Two specs publish only what the same driver has made.
		{"node, and a controller elsewhere", suite{Address: alone.socket, Controller: both.socket}, alone, 30},
		// Before all other groups it asks for the capabilities of a controller.
		{"node without controller", suite{Address: alone.socket, Focus: "Identity Service"}, alone, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.suite
			s.Dir, s.Parameters = t.TempDir(), with(llama(), "path", "gguf")
			text, err := json.Marshal(s)
			must(t, err)
			self, err := os.Executable()
			must(t, err)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), asSanity+"="+string(text))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			states := map[string]int{}
			for line := range strings.Lines(string(out)) {
				_, rest, ok := strings.Cut(line, specLine) // after a bullet of the last spec
				if !ok {
					continue
				}
				state, name, _ := strings.Cut(strings.TrimSpace(rest), "\t")
				if states[state]++; c.suite.Focus == "" {
					t.Log(state, name)
				}
			}
			for _, state := range slices.Sorted(maps.Keys(states)) {
				t.Logf("%d %s", states[state], state)
			}
			if states["passed"] != c.passed {
				t.Errorf("%d passed, want %d", states["passed"], c.passed)
			}
			c.rig.mustBeClean()
		})
	}
}
