//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// sample is one measurement.
type sample struct {
	wall  time.Duration
	bytes int64
	cpu   time.Duration // of the reader, and of the server
}

// speed returns GB/s, of 10^9 bytes.
func (s sample) speed() float64 { return float64(s.bytes) / float64(s.wall) }

func (s sample) ms() float64    { return ms(s.wall) }
func (s sample) cpuMS() float64 { return ms(s.cpu) }

// plus returns what two steps took that deliver the same bytes.
func (s sample) plus(t sample) sample {
	return sample{s.wall + t.wall, max(s.bytes, t.bytes), s.cpu + t.cpu}
}

// variant is one row of a part: a way of doing something, measured once in each
// pass.
type variant struct {
	name string
	// prepare, if any, is not measured.
	prepare func() error
	run     func() (sample, error)
	// memory is how much new memory the kernel will need: it is touched before.
	memory int64
	// base is what the row is compared with, the name of another row; aim is
	// what the ratio should be. Empty and 0: nothing.
	base string
	aim  float64

	samples []sample
}

// Where a machine is slow, a part ends early: after so long, but with so many
// passes that count.
const (
	longest     = 2 * time.Minute
	leastPasses = 3
)

// round measures all variants in turn, pass after pass. The first pass does not
// count.
func (b *bench) round(variants []*variant, passes int) error {
	started := time.Now()
	for pass := range passes + 1 {
		if took := time.Since(started); took > longest && pass > leastPasses {
			b.say("  that is enough: %.0f s", took.Seconds())
			break
		}
		for _, v := range variants {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			if v.prepare != nil {
				if err := v.prepare(); err != nil {
					return fmt.Errorf("%s: %w", v.name, err)
				}
			}
			if err := b.touch(v.memory); err != nil {
				return err
			}
			s, err := v.run()
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			if pass > 0 {
				v.samples = append(v.samples, s)
			}
		}
		b.say("  pass %d of %d, %.0f s", pass, passes, time.Since(started).Seconds())
	}
	return nil
}

// series returns a number of every sample.
func (v *variant) series(f func(sample) float64) []float64 {
	out := make([]float64, len(v.samples))
	for i, s := range v.samples {
		out[i] = f(s)
	}
	return out
}

// ratios divides, pass by pass.
func ratios(x, y []float64) []float64 {
	out := make([]float64, min(len(x), len(y)))
	for i := range out {
		out[i] = x[i] / y[i]
	}
	return out
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread writes a median with the least and the largest value behind it.
func spread(format string, x []float64) string {
	if len(x) == 0 {
		return "-"
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(x), slices.Min(x), slices.Max(x))
}

// find returns the variant of a name, or nil.
func find(variants []*variant, name string) *variant {
	for _, v := range variants {
		if v.name == name {
			return v
		}
	}
	return nil
}

// verdict compares with an aim. Ratios are rounded as they are shown.
func verdict(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

// heading begins the report of a part.
func (b *bench) heading(text string, variants []*variant) {
	fmt.Fprintf(b.out, "\n### %s\n", text)
	if len(variants) > 0 {
		fmt.Fprintf(b.out, "\nMedians of %d passes (least to largest).\n", len(variants[0].samples))
	}
}

// table prints rows; the first is the head.
func (b *bench) table(rows [][]string) {
	rule := make([]string, len(rows[0]))
	for i := range rule {
		rule[i] = "---"
	}
	fmt.Fprintln(b.out)
	for i, row := range rows {
		fmt.Fprintf(b.out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b.out, "|%s|\n", strings.Join(rule, "|"))
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func mib(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
