package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/fs/tree"
	"github.com/tensorfs/tensorfs/internal/term"
	"github.com/tensorfs/tensorfs/views"
)

type verifyOptions struct {
	modelFlags
	json bool
}

func verifyCommand() *cobra.Command {
	o := &verifyOptions{}
	c := &cobra.Command{
		Use:   "verify [--json] MODEL",
		Short: "Read everything and report what is wrong",
		Long: `verify opens MODEL with all checks of its format, then reads all of it: it compares
files with the digests in the store (Ollama, Hugging Face cache), and reads every
stored byte and every number that can be decoded. It reports NaN and infinity per
tensor, and exits 1 on any finding. Notes are not findings: they name files that
are left out, and symbolic links that a mount by root would refuse.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON object: files, tensors, bytes, findings, notes")
	o.add(c)
	return c
}

// finding is one defect.
type finding struct {
	File    string `json:"file,omitempty"`
	Tensor  string `json:"tensor,omitempty"`
	Problem string `json:"problem"`
}

type verifyReport struct {
	Files    int       `json:"files"`   // whose digests were compared
	Tensors  int       `json:"tensors"` // whose numbers were read
	Bytes    int64     `json:"bytes"`
	Findings []finding `json:"findings"`
	Notes    []string  `json:"notes"`
}

func (o *verifyOptions) run(stdout, stderr io.Writer, model string) error {
	t, notes, err := o.openNoting(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	jobs := verifyJobs(t)
	total := int64(0)
	for _, j := range jobs {
		total += j.bytes
	}
	add, end := progress(stderr, "verify", total)
	report := verifyAll(jobs, add)
	end()
	report.Notes = notes
	for _, j := range jobs {
		if j.file {
			report.Files++
		} else {
			report.Tensors++
		}
	}
	if o.json {
		err = printJSON(stdout, report)
	} else {
		err = report.print(stdout)
	}
	if err == nil && len(report.Findings) > 0 {
		return fmt.Errorf("%s: %s, listed on standard output; fetch the damaged files again", tensorfs.Printable(model), findings(len(report.Findings)))
	}
	return err
}

// openNoting opens the model as a mount by root does, and notes what that leaves
// out. A model that such a mount refuses because of a link is opened nevertheless:
// verify shows its user no more than he may read.
func (o *verifyOptions) openNoting(model string) (t *tree.Tree, notes []string, err error) {
	o.keepInside = true
	t, err = o.open(model)
	if errors.Is(err, formats.ErrLink) {
		notes = append(notes, "a mount by root refuses this model: "+tensorfs.OneLine(err.Error()))
		o.keepInside = false
		t, err = o.open(model)
	}
	if err != nil {
		return nil, nil, err
	}
	return t, append(append([]string{}, notes...), t.Model.Warnings...), nil
}

func (r *verifyReport) print(stdout io.Writer) error {
	for _, n := range r.Notes {
		if _, err := fmt.Fprintf(stdout, "note: %s\n", tensorfs.OneLine(n)); err != nil {
			return err
		}
	}
	for _, f := range r.Findings {
		where := tensorfs.Printable(cmp.Or(f.Tensor, f.File))
		if _, err := fmt.Fprintf(stdout, "%s: %s\n", where, tensorfs.OneLine(f.Problem)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(stdout, "%d tensors and %d digests read, %s, %s\n", r.Tensors, r.Files, size(r.Bytes), findings(len(r.Findings)))
	return err
}

func findings(n int) string {
	if n == 1 {
		return "1 finding"
	}
	return fmt.Sprintf("%d findings", n)
}

// progress returns a function that draws a bar on a terminal and otherwise does
// nothing, and one that takes away a bar that has not come to its end.
func progress(w io.Writer, what string, total int64) (add func(n int64), end func()) {
	if !term.Is(w) {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100e6))
	return func(n int64) { _ = bar.Add64(n) }, func() { _ = bar.Clear() } // failing to draw a bar is not a failure
}

// verifyJob is something to read. check reports what it read with add.
type verifyJob struct {
	name  string
	file  bool
	bytes int64
	check func(buf []byte, add func(int64)) []finding
}

func verifyJobs(t *tree.Tree) []verifyJob {
	var jobs []verifyJob
	for _, s := range t.Model.Sources {
		if want := digestOf(s.Path); want != "" {
			if st, err := os.Stat(s.Path); err == nil {
				jobs = append(jobs, verifyJob{s.Name, true, st.Size(), func(buf []byte, add func(int64)) []finding {
					return verifyDigest(s, want, buf, add)
				}})
			}
		}
	}
	var halves views.Tensors
	for _, b := range t.Views {
		if b.Name == "f16" {
			halves = b.Tensors
		}
	}
	for i := range t.Model.Tensors {
		raw := &t.Model.Tensors[i]
		j := verifyJob{name: raw.Name, bytes: raw.Data.Size()}
		var half tensorfs.Data
		if i, ok := views.Find(halves, raw.Weight()); ok {
			half = halves.At(i).Data
			j.bytes = half.Size()
		}
		j.check = func(buf []byte, add func(int64)) []finding { return verifyTensor(raw, half, buf, add) }
		jobs = append(jobs, j)
	}
	return jobs
}

// blobName is how stores that address files by content name them: Ollama's
// sha256-HEX and the Hugging Face cache's HEX.
var blobName = regexp.MustCompile(`^(?:sha256-)?([0-9a-f]{64})$`)

// digestOf returns the SHA-256 that a file's store promises, "" where it
// promises none.
func digestOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if m := blobName.FindStringSubmatch(filepath.Base(real)); m != nil && filepath.Base(filepath.Dir(real)) == "blobs" {
		return m[1]
	}
	return ""
}

// verifyAll runs the jobs on all cores. Findings come in the order of the jobs.
func verifyAll(jobs []verifyJob, done func(int64)) *verifyReport {
	found := make([][]finding, len(jobs))
	var next, bytes atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(len(jobs), 1)) {
		wg.Go(func() {
			buf := make([]byte, 1<<20)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				found[i] = jobs[i].check(buf, func(n int64) {
					bytes.Add(n)
					done(n)
				})
			}
		})
	}
	wg.Wait()
	return &verifyReport{Bytes: bytes.Load(), Findings: append([]finding{}, slices.Concat(found...)...)}
}

func verifyDigest(s tensorfs.Source, want string, buf []byte, add func(int64)) []finding {
	f, err := os.Open(s.Path)
	if err != nil {
		return []finding{{File: s.Name, Problem: err.Error()}}
	}
	defer f.Close()
	h := sha256.New()
	for {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		add(int64(n))
		if err == io.EOF {
			break
		}
		if err != nil {
			return []finding{{File: s.Name, Problem: err.Error()}}
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return []finding{{File: s.Name, Problem: "its digest is sha256:" + got + ", its name says " + want}}
	}
	return nil
}

// verifyTensor reads a tensor's numbers, or its stored bytes where it has none.
func verifyTensor(raw *tensorfs.Tensor, half tensorfs.Data, buf []byte, add func(int64)) []finding {
	switch {
	case raw.DType.Mantissa() > 0 && raw.Quant == nil && !raw.BigEndian: // half would also turn large finite numbers into infinity
		nan, inf, err := countNonFinite(raw.DType, raw.Data, buf, add)
		return numbers(raw, nan, inf, err)
	case half != nil:
		nan, inf, err := countNonFinite(tensorfs.F16, half, buf, add)
		return numbers(raw, nan, inf, err)
	}
	_, _, err := countNonFinite(tensorfs.Unknown, raw.Data, buf, add)
	return numbers(raw, 0, 0, err)
}

func numbers(t *tensorfs.Tensor, nan, inf int64, err error) []finding {
	var what []string
	if err != nil {
		what = append(what, err.Error())
	}
	if nan > 0 {
		what = append(what, values(nan)+" NaN")
	}
	if inf > 0 {
		what = append(what, values(inf)+" infinite")
	}
	if what == nil {
		return nil
	}
	return []finding{{Tensor: t.Name, Problem: strings.Join(what, ", ")}}
}

// values counts values for a sentence.
func values(n int64) string {
	if n == 1 {
		return "1 value is"
	}
	return fmt.Sprintf("%d values are", n)
}

// countNonFinite reads all of d and counts the IEEE floats of a type that are not
// finite. Numbers of other types are only read.
func countNonFinite(t tensorfs.DType, d tensorfs.Data, buf []byte, add func(int64)) (nan, inf int64, err error) {
	mantissa := uint64(1)<<t.Mantissa() - 1
	exponent := uint64(1)<<max(t.Bits()-1, 0) - 1 - mantissa // all ones: NaN or infinity
	for off := int64(0); off < d.Size(); {
		n := min(int64(len(buf)), d.Size()-off)
		if err := tensorfs.ReadFull(d, buf[:n], off); err != nil {
			return nan, inf, errors.Join(err)
		}
		for b, width := buf[:n], int(t.Bits()/8); mantissa > 0 && len(b) >= width; b = b[width:] {
			var v uint64
			switch width {
			case 2:
				v = uint64(binary.LittleEndian.Uint16(b))
			case 4:
				v = uint64(binary.LittleEndian.Uint32(b))
			default:
				v = binary.LittleEndian.Uint64(b)
			}
			if v&exponent == exponent {
				if v&mantissa != 0 {
					nan++
				} else {
					inf++
				}
			}
		}
		off += n
		add(n)
	}
	return nan, inf, nil
}
