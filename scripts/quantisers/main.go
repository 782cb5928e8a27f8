// Command quantisers compares the quantisers of package kernel with libggml's, in one run,
// in turn, on the same numbers, whose bytes have to come out equal. It prints a table of
// their rates.
//
//	go run ./scripts/quantisers [-passes N] [-types REGEX] [-numbers N] [LIBGGML-BASE]
//
// By default the library belongs to the llama.cpp that scripts/setup installs. MB/s count
// the numbers as BF16; medians of the passes, and of the ratios within them. Both take F32,
// which is widened from random BF16. Time on one core is processor time, so that other
// programs matter less; on all cores it is wall time.
//
// With -hashes it prints hashes of the blocks that the library writes of testnumbers' rows, for
// testdata/quantise/hashes.tsv: the first half of the SHA-256 of 40 rows of each kind. The
// library ends the process at a row that it refuses.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ebitengine/purego"

	"github.com/tensorfs/tensorfs/internal/testing/testnumbers"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// types are the types of ggml with their numbers there. Those whose bytes depend on an importance are measured with one too.
var types = []struct {
	name   string
	number int32
}{
	{"Q4_0", 2}, {"Q4_1", 3}, {"Q5_0", 6}, {"Q5_1", 7}, {"Q8_0", 8}, {"Q2_K", 10}, {"Q3_K", 11}, {"Q4_K", 12}, {"Q5_K", 13},
	{"Q6_K", 14}, {"IQ1_S", 19}, {"IQ1_M", 29}, {"IQ2_XXS", 16}, {"IQ2_XS", 17}, {"IQ2_S", 22}, {"IQ3_XXS", 18}, {"IQ3_S", 21}, {"IQ4_NL", 20}, {"IQ4_XS", 23}, {"TQ1_0", 34}, {"TQ2_0", 35}, {"MXFP4", 39},
}

const columns = 4096 // of a row

func main() {
	passes := flag.Int("passes", 5, "passes that count")
	which := flag.String("types", ".", "types to measure")
	numbers := flag.Int("numbers", 1<<19, "numbers that are quantised at a time")
	hashes := flag.Bool("hashes", false, "print hashes of the library's blocks")
	flag.Parse()
	library := "scripts/llama/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so"
	if flag.NArg() > 0 {
		library = flag.Arg(0)
	}
	if *hashes {
		if err := printHashes(library); err != nil {
			fmt.Fprintln(os.Stderr, "quantisers:", err)
			os.Exit(1)
		}
		return
	}
	if err := compare(library, regexp.MustCompile("^(?:"+*which+")"), *passes, max(*numbers/columns, 1)); err != nil {
		fmt.Fprintln(os.Stderr, "quantisers:", err)
		os.Exit(1)
	}
}

// open returns the library's functions that quantise rows, and that prepare for a type.
func open(library string) (quantise func(number int32, src, dst *byte, start, rows, columns int64, importance *float32) uint64, prepare func(number int32), err error) {
	if library, err = filepath.Abs(library); err != nil {
		return nil, nil, err
	}
	lib, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, nil, err
	}
	purego.RegisterLibFunc(&quantise, lib, "ggml_quantize_chunk")
	purego.RegisterLibFunc(&prepare, lib, "ggml_quantize_init")
	return quantise, prepare, nil
}

// printHashes prints the hashes of blocks of testnumbers' rows.
func printHashes(library string) error {
	quantise, prepare, err := open(library)
	if err != nil {
		return err
	}
	fmt.Println("type\timportance\tkind\tsha256")
	for _, t := range types {
		e, ok := kernel.LookupEncoder(t.name)
		if !ok {
			continue
		}
		prepare(t.number)
		for _, weighted := range []bool{false, true} {
			if weighted && e.Weigh == nil || !weighted && e.Encode == nil {
				continue
			}
			for _, kind := range testnumbers.Kinds() {
				h := sha256.New()
				for _, row := range testnumbers.Rows(kind, 40) {
					dst, first := make([]byte, testnumbers.Columns/e.Elems*e.Bytes), (*float32)(nil)
					if weighted {
						first = &row.Importance[0]
					}
					quantise(t.number, &row.Numbers[0], &dst[0], 0, 1, testnumbers.Columns, first)
					h.Write(dst)
				}
				fmt.Printf("%s\t%t\t%s\t%x\n", t.name, weighted, kind, h.Sum(nil)[:16])
			}
		}
	}
	return nil
}

func compare(library string, which *regexp.Regexp, passes, rows int) error {
	quantise, prepare, err := open(library)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	src, importance := make([]byte, 0, 4*rows*columns), make([]float32, columns)
	for range rows * columns {
		src = binary.LittleEndian.AppendUint32(src, math.Float32bits(float32(0.02*r.NormFloat64()))&^0xFFFF)
	}
	for i := range importance {
		importance[i] = float32(r.ExpFloat64())
	}
	fmt.Println("| type | libggml, one core | ours, one core | times | ours, all cores | times |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	for _, t := range types {
		e, ok := kernel.LookupEncoder(t.name)
		if !ok || !which.MatchString(t.name) {
			continue
		}
		prepare(t.number)
		row := columns / e.Elems * e.Bytes
		want, got := make([]byte, rows*row), make([]byte, rows*row)
		for _, weights := range [][]float32{nil, importance} {
			name, encode := t.name, e.Encode
			first := (*float32)(nil)
			if weights == nil && e.Encode == nil || weights != nil && e.Weigh == nil {
				continue
			}
			if weights != nil {
				name, first = t.name+" with an importance matrix", &weights[0]
				encode = func(dst, src []byte) { e.Weigh(dst, src, weights) }
			}
			var theirs, ours, all, ratios, allRatios []float64
			for range passes + 1 {
				a := processor(func() { quantise(t.number, &src[0], &want[0], 0, int64(rows), columns, first) })
				b := processor(func() { encode(got, src) })
				c := clock(func() { onAllCores(got, src, row, encode) })
				theirs, ours, all = append(theirs, a), append(ours, b), append(all, c)
				ratios, allRatios = append(ratios, a/b), append(allRatios, a/c)
			}
			if !slices.Equal(want, got) {
				return fmt.Errorf("%s: the bytes differ", name)
			}
			speed := func(times []float64) float64 { return float64(2*rows*columns) / 1e6 / median(times) }
			fmt.Printf("| %s | %.3g | %.3g | %.1f | %.3g | %.1f |\n", name, speed(theirs), speed(ours), median(ratios), speed(all), median(allRatios))
		}
	}
	return nil
}

// onAllCores encodes rows of so many bytes, a part of them on each core.
func onAllCores(dst, src []byte, row int, encode func(dst, src []byte)) {
	var wait sync.WaitGroup
	rows := len(dst) / row
	part := (rows + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for at := 0; at < rows; at += part {
		end := min(at+part, rows)
		wait.Go(func() { encode(dst[at*row:end*row], src[4*columns*at:4*columns*end]) })
	}
	wait.Wait()
}

// clock and processor return how many seconds something takes.
func clock(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

func processor(f func()) float64 {
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	start := used()
	f()
	return used() - start
}

// median leaves the first out.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v[1:]))
	return v[len(v)/2]
}
