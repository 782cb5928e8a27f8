//go:build linux

package main

import (
	"fmt"
	"os"

	"github.com/tensorfs/tensorfs"
)

// The largest vocabulary in use, with as many tensors as large models have.
const (
	vocabulary   = 262_144
	vocabTensors = 2000
)

// duration is a row of this part: a time with an aim in milliseconds.
type duration struct {
	variant
	cpu bool // the processor's time, not the clock's
}

// start measures what happens before the first numbers are there.
func (b *bench) start() error {
	small, err := b.smallTensors(100, 0)
	if err != nil {
		return err
	}
	wide, err := b.smallTensors(many, 0)
	if err != nil {
		return err
	}
	vocab, err := b.smallTensors(vocabTensors, vocabulary)
	if err != nil {
		return err
	}
	large, err := b.ggufModel(tensorfs.Q4_K, b.partMiB())
	if err != nil {
		return err
	}
	info := func(m *model) func() (sample, error) {
		return func() (sample, error) {
			wall, cpu, err := b.runs(b.tensorfs, "info", m.path)
			return sample{wall: wall, cpu: cpu}, err
		}
	}
	rows := []*duration{
		{variant: variant{name: "`tensorfs mount` until it returns, 100 tensors", aim: 50, run: b.mounts(small)}},
		{variant: variant{name: fmt.Sprintf("the same, %d tensors", many), aim: 150, run: b.mounts(wide)}},
		{variant: variant{name: fmt.Sprintf("the same, %d tensors, %d tokens", vocabTensors, vocabulary), aim: 100, run: b.mounts(vocab)}},
		{variant: b.firstByte("first byte of a raw file after mounting", large, "raw/"+tensor)},
		{variant: b.firstByte("first byte of an f16 file after mounting (Q4_K)", large, "f16/"+tensor)},
		{variant: variant{name: "`tensorfs info`, 100 tensors: CPU", run: info(small)}, cpu: true},
		{variant: variant{name: fmt.Sprintf("`tensorfs info`, %d tensors, %d tokens: CPU", vocabTensors, vocabulary), aim: 20, run: info(vocab)}, cpu: true},
		{variant: variant{name: fmt.Sprintf("`tensorfs info`, %d tensors: CPU", many), run: info(wide)}, cpu: true},
	}
	variants := make([]*variant, len(rows))
	for i, r := range rows {
		variants[i] = &r.variant
	}
	if err := b.round(variants, b.passes); err != nil {
		return err
	}
	b.heading("Starting", variants)
	table := [][]string{{"what", "ms", "aim", "met"}}
	for _, r := range rows {
		f := sample.ms
		if r.cpu {
			f = sample.cpuMS
		}
		x := r.series(f)
		row := []string{r.name, spread("%.1f", x), "", ""}
		if r.aim > 0 {
			row[2], row[3] = fmt.Sprintf("at most %.0f", r.aim), verdict(median(x) <= r.aim)
		}
		table = append(table, row)
	}
	b.table(table)
	return nil
}

// mounts runs the command that a user runs, with its server in the background.
func (b *bench) mounts(m *model) func() (sample, error) {
	return func() (sample, error) {
		dir, err := os.MkdirTemp(b.dir, "mnt-")
		if err != nil {
			return sample{}, err
		}
		b.mounted = dir
		wall, cpu, err := b.runs(b.tensorfs, "mount", m.path, dir)
		if err != nil {
			return sample{}, err
		}
		return sample{wall: wall, cpu: cpu}, b.unmountCommand()
	}
}

// firstByte opens a file of a new mount and reads a byte.
func (b *bench) firstByte(name string, m *model, file string) variant {
	var s *server
	return variant{
		name: name, aim: 1,
		prepare: func() (err error) { s, err = b.mount(m); return err },
		run: func() (sample, error) {
			x, err := b.reads(s, "first", file)
			if err != nil {
				return x, err
			}
			return x, b.unmount(s)
		},
	}
}
