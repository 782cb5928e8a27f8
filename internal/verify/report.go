package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Finding is one defect.
type Finding struct {
	File    string `json:"file,omitempty"` // of the model
	Tensor  string `json:"tensor,omitempty"`
	Kind    string `json:"kind"`
	Problem string `json:"problem"`
	job     int
}

// The kinds of findings.
const (
	KindDigest = "digest" // a file contradicts its store
	KindValues = "values" // numbers are NaN or infinite
	KindZeros  = "zeros"  // a weight is 0 throughout
	KindHole   = "hole"   // a file has space under tensors that was never written
	kindUnread = "unread" // bytes cannot be read, or changed while reading
)

// Overflow is a tensor with finite numbers that are infinite in f16/.
type Overflow struct {
	Tensor  string  `json:"tensor"`
	Values  int64   `json:"values"`
	Of      int64   `json:"of"`
	Largest float64 `json:"largest"` // magnitude
	job     int
}

type Report struct {
	Files     int        `json:"files"`   // whose digests were compared
	Tensors   int        `json:"tensors"` // whose numbers were read
	Bytes     int64      `json:"bytes"`   // that are stored, and were read
	Findings  []Finding  `json:"findings"`
	Overflows []Overflow `json:"overflows"`
	Notes     []string   `json:"notes"`
	Complete  bool       `json:"complete"` // false if it was interrupted
}

// Reporter prints what is found as it is found, or with --json all of it at the
// end.
type Reporter struct {
	*Verification
	above   func(print func()) // prints above the progress bar
	painter cli.Painter
	digests knownDigests

	recorded    bool // hf download --local-dir noted digests of files
	zerosInside bool // all tensors of zeros lie before others in their files

	mu sync.Mutex
	Report
	Lines  []string // of findings, if they are not printed as they are found
	failed error    // the first of writing
}

func (v *Verification) report() *Reporter {
	r := &Reporter{Verification: v, above: func(print func()) { print() }, painter: cli.PainterOf(v.Stdout)}
	r.Findings, r.Overflows, r.Notes = []Finding{}, []Overflow{}, v.Warnings
	for _, n := range r.Notes {
		r.print("note: %s", tensorfs.OneLine(n))
	}
	return r
}

// print prints a line for people.
func (r *Reporter) print(format string, args ...any) {
	if r.JSON || r.Quiet || r.failed != nil {
		return
	}
	r.above(func() {
		_, r.failed = fmt.Fprintln(r.Stdout, cli.Folded(r.Stdout, fmt.Sprintf(format, args...)))
	})
}

// note adds a remark that is not a finding.
func (r *Reporter) note(n string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Notes = append(r.Notes, n)
	r.print("note: %s", tensorfs.OneLine(n))
}

// find adds a finding.
func (r *Reporter) find(f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Findings = append(r.Findings, f)
	where := cmp.Or(f.Tensor, f.File)
	if where != "" {
		where = r.painter.Paint(cli.Bad, tensorfs.Printable(where)) + ": "
	}
	if r.Quiet && len(r.Lines) < MostLines {
		r.Lines = append(r.Lines, "  "+where+tensorfs.OneLine(f.Problem))
	} else if r.Quiet && len(r.Lines) == MostLines {
		r.Lines = append(r.Lines, "  ... (tensorfs verify "+conceal.Printable(r.Model)+" lists all)")
	}
	r.print("%s%s", where, tensorfs.OneLine(f.Problem))
}

// MostLines is how many findings of each of several models are listed.
const MostLines = 5

// overflow adds a tensor that overflows.
func (r *Reporter) overflow(o Overflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Overflows = append(r.Overflows, o)
	what := fmt.Sprintf("%d of %d values are beyond 65504 (up to %.4g) and become", o.Values, o.Of, o.Largest)
	switch {
	case o.Of == 1:
		what = fmt.Sprintf("its only value is beyond 65504 (%.4g) and becomes", o.Largest)
	case o.Values == 1:
		what = fmt.Sprintf("1 of %d values is beyond 65504 (%.4g) and becomes", o.Of, o.Largest)
	}
	r.print("overflow: %s: %s infinite in f16/; read %s", tensorfs.Printable(o.Tensor), what, wideEnough(o.Largest))
}

// wideEnough names the views that hold a number.
func wideEnough(largest float64) string {
	const (
		bf16 = 0x1.FFp127     // what is rounded to infinity as BF16
		f32  = 0x1.FFFFFFp127 // and as F32
	)
	switch {
	case largest >= f32:
		return "raw/"
	case largest >= bf16:
		return "f32/"
	}
	return "f32/ or bf16/"
}

// job is something to read. check reports what it finds, and with read how
// many bytes it has read.
type job struct {
	count *int // of the report, that this adds to
	bytes int64
	check func(ctx context.Context, job int, read func(n int64)) error
}

// run does the jobs on all cores, large ones first. An error of a job ends them
// all, as the end of ctx does.
func (r *Reporter) run(ctx context.Context, jobs []job) error {
	total, byCount := int64(0), map[*int]int{}
	order := make([]int, len(jobs))
	for i, j := range jobs {
		order[i] = i
		total += j.bytes
		byCount[j.count]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[b].bytes, jobs[a].bytes) })
	bar := cli.Progress(r.Stderr, "verify", total)
	r.above = bar.Above
	var bytes atomic.Int64
	err := parallel.Each(ctx, runtime.GOMAXPROCS(0), len(order), func(ctx context.Context, i int) error {
		job := jobs[order[i]]
		err := job.check(ctx, order[i], func(n int64) {
			bytes.Add(n)
			bar.Add(n)
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		if err = cmp.Or(err, r.failed); err == nil {
			*job.count++
		}
		return err
	})
	bar.Clear()
	r.Bytes = bytes.Load()
	r.sort()
	if ctx.Err() == nil {
		r.Complete = true
		return err
	}
	far := []string{}
	for _, c := range []struct {
		done *int
		what string
	}{{&r.Tensors, "tensors"}, {&r.Files, "digests"}} {
		if n := byCount[c.done]; n > 0 {
			far = append(far, fmt.Sprintf("%d of %d %s", *c.done, n, c.what))
		}
	}
	if r.JSON {
		if err := cli.PrintJSON(r.Stdout, r.Report); err != nil {
			return err
		}
	}
	said := "nothing found so far"
	if n := len(r.Findings); n > 0 {
		said = cli.Plural(n, "finding") + " so far, listed on standard output"
	}
	return fmt.Errorf("%s: interrupted after %s, %s of %s; %s", tensorfs.Printable(r.Model), near.All(far), cli.Size(r.Bytes), cli.Size(total), said)
}

// sort puts what was found in the order of the jobs.
func (r *Reporter) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.job, b.job) })
	slices.SortStableFunc(r.Overflows, func(a, b Overflow) int { return cmp.Compare(a.job, b.job) })
}

// End prints the last line, or all of it as JSON. Findings are an error.
func (r *Reporter) End(did string) error {
	if r.JSON {
		r.failed = cli.PrintJSON(r.Stdout, r.Report)
	} else {
		found := r.painter.Paint(cli.Good, cli.Plural(0, "finding"))
		if n := len(r.Findings); n > 0 {
			found = r.painter.Paint(cli.Bad, cli.Plural(n, "finding"))
		}
		if n := len(r.Overflows); n > 0 {
			found += fmt.Sprintf(", %s in f16/", cli.Plural(n, "overflow"))
		}
		r.print("%s, %s, %s", did, cli.Size(r.Bytes), found)
	}
	if r.failed != nil || len(r.Findings) == 0 {
		return r.failed
	}
	return fmt.Errorf("%s: %s, listed on standard output; %s", conceal.Printable(r.Model), cli.Plural(len(r.Findings), "finding"), r.Advice())
}

// advices say what to do about each kind of findings, the likely cause of others
// first.
var advices = []struct{ kind, advice string }{
	{KindDigest, "fetch the files with wrong digests again"},
	{KindHole, "the file was reserved and not filled, as by a download that has ended early: fetch it again"},
	{KindZeros, "the file may have been reserved and not filled, as by a download that has ended early: fetch it again, or compare its digest with the one that the publisher states"},
	{kindZerosInside, "what follows these weights in the file is there, so it was not left unfilled: compare its digest with the one that the publisher states"},
	{kindUnread, "see to it that the files can be read and that nothing writes to them, and verify again"},
}

// Advice is what to do about the findings.
func (r *Reporter) Advice() string {
	r.placeZeros()
	for _, a := range advices {
		if a.kind == kindZerosInside && r.zerosInside {
			return a.advice
		}
		if a.kind == KindZeros && r.zerosInside {
			continue
		}
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == a.kind }) {
			if a.kind == KindDigest && (strings.HasPrefix(r.Model, hub.Prefix) || strings.HasPrefix(r.Model, ollama.Prefix)) {
				return a.advice + ": tensorfs fetch --repair " + conceal.Printable(r.Model)
			}
			if a.kind == KindDigest && r.recorded {
				return a.advice + ": tensorfs fetch --repair hf:ORG/NAME " + conceal.Printable(r.Model)
			}
			return a.advice
		}
	}
	if r.Files > 0 {
		return "the digests are right, so the model has these values as it was published: ask its publisher"
	}
	return "compare its files' digests with the publisher's: if they are equal, the model was published with these values"
}

// Verification is one run of the command.
type Verification struct {
	Tree           *tree.Tree
	Model          string // as it was asked for
	Warnings       []string
	Stdout, Stderr io.Writer
	JSON           bool
	Quiet          bool // lines are kept for the end
}

// Read reads all numbers of the model and compares its files with their digests.
func (v *Verification) Read(ctx context.Context, opts views.Options) (*Reporter, error) {
	r := v.report()
	if err := r.run(ctx, valueJobs(v.Tree, opts, r)); err != nil {
		return nil, err
	}
	r.noteUncompared(v.Tree.Model)
	return r, nil
}
