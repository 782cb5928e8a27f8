//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// many is how many files the listed directories have.
const many = 50_000

// listing lists a directory of many files, beside one with the same names and
// sizes in a tmpfs.
func (b *bench) listing() error {
	if b.shm == "" {
		b.say("  left out: %v", errNoTmpfs)
		return nil
	}
	m, err := b.smallTensors(many, 0)
	if err != nil {
		return err
	}
	warm, err := b.mount(m)
	if err != nil {
		return err
	}
	same := filepath.Join(b.shm, "names")
	if err := sameFiles(same, warm.path("raw")); err != nil {
		return err
	}
	const longTmpfs, shortTmpfs = "`ls -l`, tmpfs", "`ls -f`, tmpfs"
	variants := []*variant{
		{name: longTmpfs, run: func() (sample, error) { return b.lists("-l", same) }},
		b.coldList("`ls -l`, mount, cold", m, "-l", longTmpfs, 1.3),
		{name: "`ls -l`, mount, again", base: longTmpfs, aim: 1.1, run: func() (sample, error) { return b.lists("-l", warm.path("raw")) }},
		{name: shortTmpfs, run: func() (sample, error) { return b.lists("-f", same) }},
		b.coldList("`ls -f`, mount, cold", m, "-f", shortTmpfs, 1.5),
		{name: "`ls -f`, mount, again", base: shortTmpfs, aim: 1.5, run: func() (sample, error) { return b.lists("-f", warm.path("raw")) }},
	}
	if err := b.round(variants, b.passes); err != nil {
		return err
	}
	b.heading(fmt.Sprintf("Listing %d files", many), variants)
	rows := [][]string{{"what", "ms", "CPU ms of ls", "times", "that of", "aim", "met"}}
	for _, v := range variants {
		row := []string{v.name, spread("%.0f", v.series(sample.ms)), fmt.Sprintf("%.0f", median(v.series(sample.cpuMS))), "", "", "", ""}
		if base := find(variants, v.base); base != nil {
			r := median(ratios(v.series(sample.ms), base.series(sample.ms)))
			row[3], row[4], row[5], row[6] = fmt.Sprintf("%.2f", r), base.name, fmt.Sprintf("at most %.1f", v.aim), verdict(r < v.aim+0.005)
		}
		rows = append(rows, row)
	}
	b.table(rows)
	return os.RemoveAll(same)
}

// lists runs ls.
func (b *bench) lists(flag, dir string) (sample, error) {
	wall, cpu, err := b.runs("ls", flag, dir)
	return sample{wall: wall, cpu: cpu}, err
}

// coldList lists a directory of a new mount.
func (b *bench) coldList(name string, m *model, flag, base string, aim float64) *variant {
	var s *server
	return &variant{
		name: name, base: base, aim: aim,
		prepare: func() (err error) { s, err = b.mount(m); return err },
		run: func() (sample, error) {
			x, err := b.lists(flag, s.path("raw"))
			if err != nil {
				return x, err
			}
			return x, b.unmount(s)
		},
	}
}

// sameFiles makes a directory with the names and sizes of another's files, all
// of them holes.
func sameFiles(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if len(entries) != many {
		return fmt.Errorf("%s has %d files, not %d", from, len(entries), many)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(to, e.Name()), os.O_CREATE|os.O_WRONLY, 0o444)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(st.Size()), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
