package mounts

import (
	"slices"
	"testing"
)

func TestParseTable(t *testing.T) {
	const table = `22 28 0:21 / /proc rw,nosuid - proc proc rw
36 35 0:52 / /mnt/a\040b\011c\134d ro,nosuid shared:7 master:2 - fuse.tensorfs /models/x\040y.gguf ro,user_id=0
broken line
1 2 3 - x
36 35 0:50 / /mnt/short - fuse.tensorfs m ro
36 35 0:51 / /mnt/shorter ro - fuse.tensorfs
36 35 0:53 / /mnt/\9 ro - fuse.tensorfs #weird ro
36 35 0:54 / /mnt/no` + "\u00a0break\u3000\u0085\v\f\r" + ` ro shared:7 - fuse.tensorfs /m` + "\u00a0" + `l ro
36 35 0:55 / /mnt/empty ro - tmpfs  rw
36 35 0:56 / /mnt/bare ro - tmpfs without-options
`
	var got []Mount
	for _, m := range ParseTable(table) {
		got = append(got, m.Mount)
		if m.Device == "0:52" && (m.Root != "/" || !slices.Equal(m.Super, []string{"ro", "user_id=0"})) {
			t.Errorf("%+v", m)
		}
	}
	want := []Mount{
		{Mountpoint: "/proc", Source: "proc", Type: "proc", Device: "0:21"},
		{Mountpoint: "/mnt/a b\tc\\d", Source: "/models/x y.gguf", Type: "fuse.tensorfs", Device: "0:52"},
		{Mountpoint: `/mnt/\9`, Source: "#weird", Type: "fuse.tensorfs", Device: "0:53"},
		{Mountpoint: "/mnt/no\u00a0break\u3000\u0085\v\f\r", Source: "/m\u00a0l", Type: "fuse.tensorfs", Device: "0:54"},
		{Mountpoint: "/mnt/empty", Source: "", Type: "tmpfs", Device: "0:55"},
		{Mountpoint: "/mnt/bare", Source: "without-options", Type: "tmpfs", Device: "0:56"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
