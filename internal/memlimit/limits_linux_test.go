package memlimit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const meminfo = "MemTotal:        4194304 kB\nMemFree:          100 kB\nMemAvailable:    2097152 kB\nHugePages_Total:       0\n"

// TestMemoryLimits: what is found under /proc and in the control groups.
func TestMemoryLimits(t *testing.T) {
	const unlimited = "9223372036854771712"
	v2stat := "anon %d\nfile 5000000000\nkernel_stack 1\npagetables 2\npercpu 3\nsock 4\nshmem %d\nslab_reclaimable 1000000\nslab_unreclaimable 5\n"
	v1stat := "cache 9\nrss 9\nshmem 9\ntotal_cache 5000000000\ntotal_rss %d\ntotal_shmem %d\n"
	machine := limit{4 << 30, 2 << 30}
	for name, c := range map[string]struct {
		files map[string]string
		want  []limit
	}{
		"nothing":    {nil, nil},
		"no cgroups": {map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": ""}, []limit{machine}},
		"version 2, an ancestor and memory.high": {map[string]string{
			"proc/meminfo":                        meminfo,
			"proc/self/cgroup":                    "0::/a/b/c\n",
			"proc/self/mountinfo":                 "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
			"sys/fs/cgroup/a/memory.max":          "1073741824\n",
			"sys/fs/cgroup/a/memory.high":         "max\n",
			"sys/fs/cgroup/a/memory.stat":         fmt.Sprintf(v2stat, 100, 200),
			"sys/fs/cgroup/a/b/memory.max":        "max\n",
			"sys/fs/cgroup/a/b/c/memory.max":      "536870912\n",
			"sys/fs/cgroup/a/b/c/memory.high":     "268435456\n",
			"sys/fs/cgroup/a/b/c/memory.stat":     fmt.Sprintf(v2stat, 10, 20),
			"sys/fs/cgroup/other/memory.max":      "1\n",
			"sys/fs/cgroup/a/b/c/deep/memory.max": "1\n",
		}, []limit{machine, {256 << 20, 45}, {1 << 30, 315}}},
		"version 1 in a container": {map[string]string{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "9:cpu,cpuacct:/other\n4:memory:/docker/abc/job\n0::/other\n",
			"proc/self/mountinfo": "35 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"36 31 0:32 /docker/abc /sys/fs/cgroup/memory\\040one ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory one/memory.limit_in_bytes":     "134217728\n",
			"sys/fs/cgroup/memory one/memory.stat":               fmt.Sprintf(v1stat, 300, 400),
			"sys/fs/cgroup/memory one/job/memory.limit_in_bytes": unlimited + "\n",
			"sys/fs/cgroup/cpu/memory.limit_in_bytes":            "1\n",
		}, []limit{machine, {128 << 20, 700}}},
		"a group that is not below the mount": {map[string]string{
			"proc/self/cgroup":                "4:memory:/docker/abcd\n",
			"proc/self/mountinfo":             "36 31 0:32 /docker/abc /m ro - cgroup cgroup rw,memory\n",
			"m/memory.limit_in_bytes":         "134217728\n",
			"m/docker/memory.limit_in_bytes":  "1\n",
			"m/d/memory.limit_in_bytes":       "1\n",
			"proc/meminfo":                    "nonsense\n\nMemTotal:\nMemTotal: many kB\n",
			"m/memory.stat":                   "",
			"m/docker/abcd/memory.limit_in_b": "1",
		}, []limit{{128 << 20, 0}}},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got := (limits{root}).all(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		left := int64(math.MaxInt64)
		for _, m := range c.want {
			left = min(left, m.max-m.used-max(spare, m.max/16))
		}
		if got := (limits{root}).available(); got != left {
			t.Errorf("%s: %d bytes are left, want %d", name, got, left)
		}
	}
}
