package mounts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Table is the file with the mounts of this process.
const Table = "/proc/self/mountinfo"

func readTable() ([]Mount, error) {
	b, err := os.ReadFile(Table)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	var all []Mount
	for _, m := range ParseTable(string(b)) {
		m.port, m.user = m.number("port="), m.number("user_id=")
		all = append(all, m.Mount)
	}
	return all, nil
}

// ParseTable reads the lines of the file Table:
//
//	36 35 0:52 / /mnt/model ro,nosuid,nodev - fuse.tensorfs /models/a.gguf ro,user_id=0
//	id parent dev root mountpoint options [tags...] - type source options
//
// Fields are separated by one space. A space, tab, newline or backslash inside a
// field is escaped and everything else is as it was given: other white space, such
// as a carriage return or a no-break space, is part of a name. A field may be
// empty, such as the source of a mount made from "". Lines that do not look like
// this are skipped.
func ParseTable(table string) []Line {
	var all []Line
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		if !ok {
			continue
		}
		left, right := strings.Split(before, " "), strings.Split(after, " ")
		if len(left) < 6 || len(right) < 2 {
			continue
		}
		m := Line{Root: unescape(left[3]), Mount: Mount{
			Mountpoint: unescape(left[4]),
			Source:     unescape(right[1]),
			Type:       unescape(right[0]),
			Device:     left[2],
		}}
		if len(right) > 2 {
			m.Super = strings.Split(right[2], ",")
		}
		all = append(all, m)
	}
	return all
}

// Line is a Mount with the fields that only Linux has.
type Line struct {
	Mount
	Root  string   // the directory of the file system that is mounted
	Super []string // options of the file system, not only of this mount
}

// number returns the value of an option of the file system, 0 without one.
func (m *Line) number(key string) int {
	for _, opt := range m.Super {
		if value, ok := strings.CutPrefix(opt, key); ok {
			n, _ := strconv.Atoi(value) // 0 for no number
			return n
		}
	}
	return 0
}

// unescape undoes the octal escapes of the mount table.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte(s[i+1]&7<<6 | s[i+2]&7<<3 | s[i+3]&7)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return '0' <= c && c <= '7' }
