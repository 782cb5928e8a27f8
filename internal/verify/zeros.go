package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/views"
)

// A download that reserves the space of a file before it fills it, and ends early,
// leaves a file of the right length with zeros in it. They are numbers as good as any
// to a parser, so verify looks for weights that are 0 throughout and for holes, which
// are space that was never written.

// zeroRules say what it means that all numbers of a tensor are 0, by its canonical name.
// The first row whose part is in the name counts; what is in none is a weight.
var zeroRules = []struct {
	part   string
	normal bool
	note   string // what it may be besides a damaged file; "" for a finding, unless it is normal
}{
	{part: "bias", normal: true}, // most are 0 before a model is trained, and many stay so
	{part: "lora_b", note: "as in an adapter before its training"},
	{part: "position", note: "a model may keep a table of positions that it does not use"},
	{part: "token_type", note: "a model of one kind of tokens does not use it"},
	{part: "sinks", note: "a head may have no sink"},
	{part: "mask", normal: true},  // which positions see which
	{part: "cache", normal: true}, // numbers that are computed again
	{part: "rope", normal: true},
	{part: "rotary", normal: true},
	{part: "inv_freq", normal: true},
}

// leastNumbers is how many numbers a weight has whose zeros mean something: single
// ones are switches and scales.
const leastNumbers = 8

// meaning interprets a tensor whose numbers are all 0: as nothing, a note, or a finding.
func meaning(m *tensorfs.Model, t *tensorfs.Tensor) (is bool, note string) {
	name := strings.ToLower(t.Weight())
	n, _ := tensorfs.Elements(t.Numbers())
	if t.Owner != "" || n < leastNumbers || t.DType.Kind() == tensorfs.KindInteger && t.Quant == nil {
		return false, ""
	}
	for _, r := range zeroRules {
		if strings.Contains(name, r.part) {
			return !r.normal, r.note
		}
	}
	norm := strings.Contains(name, "norm")
	switch {
	case norm && m.Layout == "hf" && addsToNorm(m, t.Name):
		return true, "norms of this architecture are stored without a number that they add"
	case !norm && len(t.Numbers()) < 2: // a scale, a switch for each head, ...
		return false, ""
	}
	return true, ""
}

// addsToNorm reports whether a directory stores a norm without a number that is added to it: a norm that is 0 is
// that number. mlx-lm adds it to some norms when it converts.
func addsToNorm(m *tensorfs.Model, canonical string) bool {
	a := architectures.Find(m.Architecture)
	return a != nil && slices.ContainsFunc(a.MovesOf(canonical), func(x architectures.Move) bool {
		return x.Name == "plus" || x.Name == "plus_mlx" && m.Format != "mlx"
	})
}

// checkZeros reports a tensor whose numbers are all 0.
func (r *Reporter) checkZeros(m *tensorfs.Model, t *tensorfs.Tensor, c views.Counts, f Finding) {
	if c.NonZero || t.Data.Size() == 0 {
		return
	}
	is, note := meaning(m, t)
	if !is {
		return
	}
	what := fmt.Sprintf("all its %d values are 0", c.Numbers)
	if c.Numbers == 0 {
		what = fmt.Sprintf("all its %d bytes are 0", t.Data.Size())
	}
	switch {
	case note != "":
		r.note(fmt.Sprintf("%s: %s: %s", tensorfs.Printable(t.Weight()), what, note))
	case r.digests.all(t):
		r.note(fmt.Sprintf("%s: %s, and its file is compared with a digest", tensorfs.Printable(t.Weight()), what))
	default:
		f.Kind, f.Problem = KindZeros, what
		r.find(f)
	}
}

// kindZerosInside replaces kindZeros in the table of advices if numbers follow the zeros.
const kindZerosInside = "zeros inside"

// placeZeros finds out whether all tensors of zeros lie before others in their files: what is reserved and not filled is
// 0 up to the end.
func (r *Reporter) placeZeros() {
	zero := map[string]bool{}
	for _, f := range r.Findings {
		if f.Kind == KindZeros {
			zero[f.Tensor] = true
		}
	}
	type last struct {
		end  int64
		zero bool
	}
	ends := map[string]last{}
	m := r.Tree.Model
	for i := range m.Tensors {
		for _, x := range tensorfs.Extents(m.Tensors[i].Data) {
			if end := x.Offset + x.Bytes; end > ends[x.File].end {
				ends[x.File] = last{end, zero[m.Tensors[i].Name]}
			}
		}
	}
	r.zerosInside = len(zero) > 0
	for _, l := range ends {
		r.zerosInside = r.zerosInside && !l.zero
	}
}

// knownDigests are the files of the model, by their names below source/, that are
// compared with a digest.
type knownDigests map[string]bool

// all reports whether all files that a tensor is stored in are.
func (k knownDigests) all(t *tensorfs.Tensor) bool {
	files := tensorfs.Extents(t.Data)
	return len(files) > 0 && !slices.ContainsFunc(files, func(x tensorfs.Extent) bool { return !k[x.File] })
}

// leastHole is how long a hole under a tensor is that means something. Programs that
// copy files leave out shorter runs of zeros, which tensors may have.
const leastHole = 1 << 20

// holed is a file that knows its holes.
type holed interface {
	Holes(ctx context.Context, least int64) ([][2]int64, error)
}

// holeJobs look for holes of the files of this machine that tensors are in.
func holeJobs(m *tensorfs.Model, r *Reporter) (jobs []job) {
	under := map[string][]*tensorfs.Tensor{}
	for i := range m.Tensors {
		for _, x := range tensorfs.Extents(m.Tensors[i].Data) {
			if at := under[x.File]; len(at) == 0 || at[len(at)-1] != &m.Tensors[i] {
				under[x.File] = append(at, &m.Tensors[i])
			}
		}
	}
	for _, s := range m.Sources {
		if len(under[s.Name]) == 0 || !s.Local() {
			continue
		}
		d, err := m.File(s.Name)
		f, ok := d.(holed)
		if err != nil || !ok {
			continue // what cannot be read is said where the tensors are
		}
		jobs = append(jobs, job{new(int), 0, func(ctx context.Context, job int, _ func(int64)) error {
			holes, err := f.Holes(ctx, leastHole)
			if err != nil {
				return ctx.Err() // no file system has to know
			}
			r.checkHoles(s.Name, holes, under[s.Name], job)
			return nil
		}})
	}
	return jobs
}

// checkHoles reports the holes of a file that tensors lie in.
func (r *Reporter) checkHoles(file string, holes [][2]int64, ts []*tensorfs.Tensor, job int) {
	total, inside := int64(0), []string(nil)
	for _, t := range ts {
		n := int64(0)
		for _, x := range tensorfs.Extents(t.Data) {
			if x.File == file {
				n += overlap(holes, x.Offset, x.Offset+x.Bytes)
			}
		}
		if n >= leastHole {
			total += n
			inside = append(inside, t.Weight())
		}
	}
	if len(inside) == 0 {
		return
	}
	where := tensorfs.Printable(inside[0])
	if n := len(inside); n > 1 {
		where = fmt.Sprintf("%d tensors (the first is %s)", n, where)
	}
	what := fmt.Sprintf("%s of %s were never written: the file has holes there", cli.Size(total), where)
	if r.digests[file] {
		r.note(fmt.Sprintf("%s: %s; it is compared with a digest", tensorfs.Printable(file), what))
		return
	}
	r.find(Finding{File: file, Kind: KindHole, Problem: what, job: job})
}

// overlap returns how much of [from, to) lies in holes, which are in order.
func overlap(holes [][2]int64, from, to int64) (n int64) {
	i, _ := slices.BinarySearchFunc(holes, from, func(h [2]int64, at int64) int { return int(min(max(h[1]-at, -1), 1)) })
	for ; i < len(holes) && holes[i][0] < to; i++ {
		n += max(min(holes[i][1], to)-max(holes[i][0], from), 0)
	}
	return n
}

// NothingCompared is noted if no file of weights has a digest.
const NothingCompared = "nothing was compared, because no digest of these files is known: verify hf:ORG/NAME/FILE compares with the Hub's, and sha256sum -c in a mount with a list that sha256sum made in a mount of a good copy"

// noteUncompared notes that only the numbers were checked.
func (r *Reporter) noteUncompared(m *tensorfs.Model) {
	for i := range m.Tensors {
		for _, x := range tensorfs.Extents(m.Tensors[i].Data) {
			if r.digests[x.File] {
				return
			}
		}
	}
	r.note(NothingCompared)
}
