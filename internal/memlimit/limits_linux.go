package memlimit

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/internal/mounts"
)

// limits finds how much memory this process may take: what the machine has, and what the
// control groups of the process allow. Nothing is remembered, because limits can be
// changed at any time and a process can be moved.
type limits struct {
	root string // of the tree of files: "/" but in tests
}

// limit is one of the limits.
type limit struct {
	max  int64
	used int64 // of it, without what the kernel can take back at once (caches)
}

// groupFiles lists, for each version of control groups, the files with limits and
// the parts of memory.stat that cannot be reclaimed. In version 1 these do not
// include kernel memory, which the spare makes up for.
var groupFiles = map[string]struct {
	limits []string
	used   []string
}{
	"cgroup2": {
		[]string{"memory.max", "memory.high"},
		[]string{"anon", "shmem", "kernel_stack", "pagetables", "percpu", "sock", "slab_unreclaimable"},
	},
	"cgroup": {
		[]string{"memory.limit_in_bytes"},
		[]string{"total_rss", "total_shmem"},
	},
}

// Left returns how many bytes of memory may be taken now, by the limits of this machine
// and of the control groups of the process.
func Left() int64 { return limits{root: "/"}.available() }

// available returns how many bytes may be taken now.
func (l limits) available() int64 {
	left := int64(math.MaxInt64)
	for _, m := range l.all() {
		left = min(left, m.max-m.used-max(spare, m.max/16))
	}
	return left
}

// all returns the limits that can be found. A file that cannot be read sets no limit.
func (l limits) all() []limit {
	var all []limit
	info := l.numbers("/proc/meminfo")
	if total, ok := info["MemTotal:"]; ok {
		used := int64(0)
		if available, ok := info["MemAvailable:"]; ok {
			used = total - available
		}
		all = append(all, limit{total << 10, used << 10})
	}
	table, err := os.ReadFile(l.path(mounts.Table))
	if err != nil {
		return all
	}
	for _, m := range mounts.ParseTable(string(table)) {
		files, ok := groupFiles[m.Type]
		if !ok || m.Type == "cgroup" && !slices.Contains(m.Super, "memory") {
			continue
		}
		// Every group above limits those below it.
		for group := l.group(m); ; group = filepath.Dir(group) {
			dir := filepath.Join(m.Mountpoint, group)
			most := int64(math.MaxInt64)
			for _, name := range files.limits {
				most = min(most, l.number(filepath.Join(dir, name)))
			}
			if most < math.MaxInt64>>1 { // version 1 reports a large number if there is no limit
				stat := l.numbers(filepath.Join(dir, "memory.stat"))
				used := int64(0)
				for _, part := range files.used {
					used += stat[part]
				}
				all = append(all, limit{most, used})
			}
			if group == "/" {
				break
			}
		}
	}
	return all
}

// group returns this process's group as a path below the mount of its hierarchy.
// In a container the mount may show only a part of the hierarchy, while the path
// is one from its root.
func (l limits) group(m mounts.Line) string {
	b, err := os.ReadFile(l.path("/proc/self/cgroup"))
	if err != nil {
		return "/"
	}
	for line := range strings.Lines(string(b)) { // 4:memory:/a/b, or 0::/a/b in version 2
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if m.Type == "cgroup2" && parts[0] != "0" || m.Type == "cgroup" && !slices.Contains(strings.Split(parts[1], ","), "memory") {
			continue
		}
		if rest, ok := strings.CutPrefix(parts[2], strings.TrimSuffix(m.Root, "/")); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join("/", rest)
		}
	}
	return "/"
}

func (l limits) path(path string) string { return filepath.Join(l.root, path) }

// number reads a file with a number. "max" and a missing file count as no number.
func (l limits) number(path string) int64 {
	b, err := os.ReadFile(l.path(path))
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// numbers reads a file with a name and a number in each line.
func (l limits) numbers(path string) map[string]int64 {
	b, err := os.ReadFile(l.path(path))
	if err != nil {
		return nil
	}
	all := make(map[string]int64)
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			all[words[0]] = n
		}
	}
	return all
}
