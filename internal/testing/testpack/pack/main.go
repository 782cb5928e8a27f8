// Command pack replaces weights in testdata by recipes that make the same bytes again: in the
// root of the module, go run ./internal/testing/testpack/pack FILE..., of .safetensors and .gguf
// files. It knows the seeds that scripts/programs/golden.py takes, and tries small ones. What it
// cannot explain it stores. A file that would not become much smaller stays.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/internal/testing/testpack"
)

var (
	sequences = flag.Int("seeds", 8, "how many small seeds of NumPy are tried")
	length    = flag.Int("length", 400_000, "how many numbers of a seed are looked at")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	p := &packer{maker: &testpack.Maker{}, places: map[[32]byte]place{}}
	for _, dir := range []string{"architectures", "published"} {
		entries, err := os.ReadDir(filepath.Join("testdata", dir))
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				p.cases = append(p.cases, e.Name())
			}
		}
	}
	list, err := testpack.List("testdata")
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range flag.Args() {
		name, err := filepath.Rel("testdata", path)
		if err != nil || !filepath.IsLocal(name) {
			log.Fatalf("%s is not in testdata", path)
		}
		sum, err := p.pack(filepath.ToSlash(name))
		if err != nil {
			log.Fatal(err)
		}
		if sum != "" {
			list[filepath.ToSlash(name)] = sum
		}
	}
	if err := save(list); err != nil {
		log.Fatal(err)
	}
}

// save writes the list of all files that are made, and has git ignore them.
func save(list map[string]string) error {
	sums, ignored := "", "/packed/made.txt\n"
	for _, name := range slices.Sorted(keys(list)) {
		sums += list[name] + "  " + name + "\n"
		ignored += "/" + name + "\n"
	}
	if err := os.WriteFile("testdata/.gitignore", []byte(ignored), 0o644); err != nil {
		return err
	}
	return os.WriteFile("testdata/packed/list.txt", []byte(sums), 0o644)
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

type packer struct {
	maker  *testpack.Maker
	cases  []string           // names of models, from which seeds were made
	seeds  []uint64           // of NumPy's sequences that were found
	places map[[32]byte]place // where bytes were already
}

type place struct {
	file string
	off  int
	as   string // the type that is widened
}

type tensor struct {
	name, dtype string
	off, size   int
}

// pack writes the recipe of a file, and returns the file's SHA-256 if it is worth it.
func (p *packer) pack(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		return "", err
	}
	tensors, err := tensorsOf(name, b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var lines []string
	var stored []byte
	left := 0
	store := func(b []byte, dtype string) {
		if len(b) == 0 {
			return
		}
		width := map[string]int{"BF16": 2, "F16": 2, "I16": 2, "F32": 4, "I32": 4, "U32": 4, "F64": 8, "I64": 8}[dtype]
		width = max(width, 1)
		lines = append(lines, fmt.Sprintf("stored %d %d", len(b), width))
		stored = append(stored, testpack.Planes(b, width)...)
	}
	s := p.search(name, b, tensors)
	end := 0
	for _, t := range tensors {
		store(b[end:t.off], "")
		data := b[t.off : t.off+t.size]
		line := s.explain(t, data)
		if at, ok := p.places[sha256.Sum256(data)]; ok && line == "" {
			n := len(data)
			if at.as != "raw" {
				n /= 2
			}
			line = fmt.Sprintf("copy %s %d %d %s", at.file, at.off, n, at.as)
		}
		if line != "" {
			lines = append(lines, line)
		} else {
			store(data, t.dtype)
			left += len(data)
		}
		end = t.off + t.size
	}
	store(b[end:], "")
	recipe := append([]byte(strings.Join(lines, "\n")+"\n\n"), stored...)
	p.maker.File = func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) }
	again, err := p.maker.Make(recipe)
	if err != nil || !bytes.Equal(again, b) {
		return "", fmt.Errorf("%s: the recipe gives other bytes: %w", name, err)
	}
	for _, t := range tensors {
		data := b[t.off : t.off+t.size]
		if t.size >= 256 {
			p.remember(data, place{name, t.off, "raw"})
			if t.dtype == "BF16" || t.dtype == "F16" {
				p.remember(testpack.Widen(data, t.dtype), place{name, t.off, t.dtype})
			}
		}
	}
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
	w.Write(recipe)
	w.Close()
	worth := len(b)-z.Len() > 3000 && z.Len() < len(b)*8/10
	log.Printf("%s: %d bytes, %d packed, %d of tensors stored, %v", name, len(b), z.Len(), left, worth)
	if !worth {
		return "", nil
	}
	out := filepath.Join("testdata/packed", name+".pack")
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(b)), os.WriteFile(out, z.Bytes(), 0o644)
}

func (p *packer) remember(b []byte, at place) {
	key := sha256.Sum256(b)
	if _, ok := p.places[key]; !ok {
		p.places[key] = at
	}
}

func tensorsOf(name string, b []byte) ([]tensor, error) {
	if strings.HasSuffix(name, ".gguf") {
		return ggufTensors(b)
	}
	n := int(binary.LittleEndian.Uint64(b))
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, err
	}
	var out []tensor
	for name, text := range header {
		var t struct {
			DType   string `json:"dtype"`
			Offsets [2]int `json:"data_offsets"`
		}
		if name == "__metadata__" {
			continue
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		out = append(out, tensor{name, t.DType, 8 + n + t.Offsets[0], t.Offsets[1] - t.Offsets[0]})
	}
	slices.SortFunc(out, func(a, b tensor) int { return a.off - b.off })
	return out, nil
}

// ggufTensors returns the tensors of a sound file; others are stored as they are.
func ggufTensors(b []byte) ([]tensor, error) {
	at := 8
	number := func(size int) uint64 {
		var x [8]byte
		copy(x[:], b[at:at+size])
		at += size
		return binary.LittleEndian.Uint64(x[:])
	}
	text := func() string {
		n := int(number(8))
		at += n
		return string(b[at-n : at])
	}
	alignment := 32
	var skip func(kind uint64, key string)
	skip = func(kind uint64, key string) {
		switch kind {
		case 8:
			text()
		case 9:
			kind := number(4)
			for range number(8) {
				skip(kind, "")
			}
		default:
			v := number([]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}[kind])
			if key == "general.alignment" {
				alignment = int(v)
			}
		}
	}
	tensors, keys := number(8), number(8)
	for range keys {
		key := text()
		skip(number(4), key)
	}
	var out []tensor
	for range tensors {
		t := tensor{name: text()}
		elements := 1
		for range number(4) {
			elements *= int(number(8))
		}
		kind := number(4)
		t.off = int(number(8))
		switch kind {
		case 0:
			t.dtype, t.size = "F32", 4*elements
		case 1:
			t.dtype, t.size = "F16", 2*elements
		case 30:
			t.dtype, t.size = "BF16", 2*elements
		}
		if t.size > 0 {
			out = append(out, t)
		}
	}
	base := (at + alignment - 1) / alignment * alignment
	for i := range out {
		out[i].off += base
	}
	slices.SortFunc(out, func(a, b tensor) int { return a.off - b.off })
	return out, nil
}

// A search looks for the numbers of a file in the sequences of generators.
type search struct {
	*packer
	model    string
	integers []uint32
	normals  []uint64
}

func (p *packer) search(name string, b []byte, tensors []tensor) *search {
	s := &search{packer: p, model: filepath.Base(filepath.Dir(name))}
	if len(tensors) == 0 {
		return s
	}
	largest := slices.MaxFunc(tensors, func(a, b tensor) int { return a.size - b.size })
	data := b[largest.off : largest.off+largest.size]
	names := []string{s.model}
	for parts := strings.Split(s.model, "-"); len(parts) > 1; {
		parts = parts[:len(parts)-1]
		names = append(names, strings.Join(parts, "-"))
	}
	var seeds []uint32
	for _, n := range append(names, p.cases...) {
		seeds = append(seeds, crc32.ChecksumIEEE([]byte(n)))
	}
	for i := range uint32(20) {
		seeds = append(seeds, i)
	}
	for _, seed := range seeds {
		s.integers = []uint32{seed}
		if s.integer(largest, data) != "" {
			break
		}
		s.integers = nil
	}
	if own := seeds[0]; len(s.integers) > 0 && s.integers[0] != own {
		s.integers = append(s.integers, own)
	}
	if len(s.integers) > 0 || s.named(largest, data) != "" {
		return s
	}
	for _, probe := range []tensor{largest, tensors[0], tensors[len(tensors)/2]} {
		data := b[probe.off : probe.off+probe.size]
		for _, seed := range append(slices.Clone(p.seeds), sequence(uint64(*sequences))...) {
			s.normals = []uint64{seed}
			if s.normal(probe, data, *length) != "" {
				if !slices.Contains(p.seeds, seed) {
					p.seeds = append(p.seeds, seed)
				}
				return s
			}
		}
	}
	s.normals = nil
	return s
}

func sequence(n uint64) (out []uint64) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// explain returns the line that makes a tensor, or nothing.
func (s *search) explain(t tensor, data []byte) string {
	if line := s.integer(t, data); line != "" {
		return line
	}
	if line := s.named(t, data); line != "" {
		return line
	}
	return s.normal(t, data, *length)
}

// named tries the seed that is the checksum of the model's name and the tensor's.
func (s *search) named(t tensor, data []byte) string {
	saved := s.normals
	defer func() { s.normals = saved }()
	s.normals = []uint64{uint64(crc32.ChecksumIEEE([]byte(s.model + "/" + t.name)))}
	return s.normal(t, data, elements(t))
}

func elements(t tensor) int {
	if t.dtype == "F32" {
		return t.size / 4
	}
	return t.size / 2
}

func values(t tensor, data []byte) []float64 {
	wide := data
	switch t.dtype {
	case "BF16", "F16":
		wide = testpack.Widen(data, t.dtype)
	case "F32":
	default:
		return nil
	}
	out := make([]float64, len(wide)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(wide[4*i:])))
		if math.IsNaN(out[i]) || math.IsInf(out[i], 0) {
			return nil
		}
	}
	return out
}

func (s *search) exact(line string, data []byte) bool {
	b, err := s.maker.Make([]byte(line + "\n\n"))
	return err == nil && bytes.Equal(b, data)
}

// integer looks for random integers: levels around 0 or 1, in steps of a power of two.
func (s *search) integer(t tensor, data []byte) string {
	x := values(t, data)
	if len(s.integers) > 0 && x == nil {
		return s.codes(t, data)
	}
	if len(x) < 8 || len(s.integers) == 0 {
		return ""
	}
	for _, levels := range []uint32{33, 15, 17, 31, 9} {
		for _, center := range []float64{0, 1} {
			for bits := 3; bits <= 8; bits++ {
				step := math.Ldexp(1, -bits)
				first := center - step*float64(levels/2)
				codes := make([]byte, len(x))
				fits := true
				for i, v := range x {
					c := (v - first) / step
					if c < 0 || c >= float64(levels) || c != math.Floor(c) {
						fits = false
						break
					}
					codes[i] = byte(c)
				}
				if !fits || bytes.Count(codes, codes[:1]) == len(codes) {
					continue
				}
				for _, seed := range s.integers {
					i := bytes.Index(s.stream(seed, levels), codes)
					if i < 0 {
						continue
					}
					line := fmt.Sprintf("integer %s %d %d %d %d %v %v", t.dtype, len(x), seed, i, levels, first, step)
					if s.exact(line, data) {
						return line
					}
				}
			}
		}
	}
	return ""
}

// codes looks for codes of golden.py's random: how many there are, the first one, and how far they are apart.
func (s *search) codes(t tensor, data []byte) string {
	width := 1
	kinds := map[string][][3]int{"F8_E4M3": {{33, 40, 129}}, "F8_E8M0": {{4, 122, 1}}, "I8": {{16, 11, 37}}, "U8": {{16, 11, 37}, {4, 122, 1}}}[t.dtype]
	if t.dtype == "I64" {
		width, kinds = 8, [][3]int{{2, 0, 1}, {3, 0, 1}, {4, 0, 1}, {5, 0, 1}}
	}
	for _, k := range kinds {
		levels := map[byte]byte{}
		for level := range k[0] {
			levels[byte(k[1]+level*k[2])] = byte(level)
		}
		found := make([]byte, 0, len(data)/width)
		for i := 0; i < len(data); i += width {
			found = append(found, levels[data[i]])
		}
		if i := bytes.Index(s.stream(s.integers[0], uint32(k[0])), found); i >= 0 && len(found) > 8 {
			line := fmt.Sprintf("integer %s %d %d %d %d %d %d", t.dtype, len(found), s.integers[0], i, k[0], k[1], k[2])
			if s.exact(line, data) {
				return line
			}
		}
	}
	return ""
}

var streams = map[[2]uint32][]byte{}

func (s *search) stream(seed, levels uint32) []byte {
	key := [2]uint32{seed, levels}
	if streams[key] == nil {
		b := make([]byte, 1_500_000)
		for i, x := range s.maker.Integers(seed).First(len(b)) {
			b[i] = byte(x % levels)
		}
		streams[key] = b
	}
	return streams[key]
}

// normal looks for normally distributed numbers around 0 or 1 within the first numbers of a seed.
func (s *search) normal(t tensor, data []byte, first int) string {
	x := values(t, data)
	if len(x) < 8 {
		return ""
	}
	digits := map[string]int{"BF16": 8, "F16": 11, "F32": 24}[t.dtype]
	low, high := make([]float64, len(x)), make([]float64, len(x))
	for i, v := range x {
		_, exp := math.Frexp(v)
		half := math.Ldexp(1.1, exp-digits-1)
		if t.dtype == "F16" {
			half = max(half, math.Ldexp(1.1, -25))
		}
		low[i], high[i] = v-half, v+half
	}
	for _, seed := range s.normals {
		z := s.maker.Normals(seed).First(max(first, len(x)))
		for skip := 0; skip+len(x) <= len(z); skip++ {
			for _, mean := range []float64{0, 1} {
				from, to := 0.0, math.Inf(1)
				for i := range x {
					q := z[skip+i]
					a, b := (low[i]-mean)/q, (high[i]-mean)/q
					if q < 0 {
						a, b = b, a
					}
					from, to = max(from, a), min(to, b)
					if from > to {
						break
					}
				}
				if from > to || to-from > 0.5*to {
					continue
				}
				for _, scale := range scales(from, to) {
					line := fmt.Sprintf("normal %s %d %d %d %v %v", t.dtype, len(x), seed, skip, mean, scale)
					if s.exact(line, data) {
						return line
					}
				}
				if len(x) > 100 {
					log.Printf("near: %s seed %d skip %d mean %v scale %v..%v", t.name, seed, skip, mean, from, to)
				}
			}
		}
	}
	return ""
}

// scales returns likely numbers in an interval: short ones, and short ones over the root of a
// row's length, as weights are initialised.
func scales(from, to float64) (out []float64) {
	for digits := 1; digits <= 17; digits++ {
		for n := range 1024 {
			root := math.Sqrt(float64(n + 1))
			short, _ := strconv.ParseFloat(strconv.FormatFloat((from+to)/2*root, 'g', digits, 64), 64)
			if scale := short / root; scale >= from && scale <= to {
				out = append(out, scale)
			}
			if digits > 2 {
				break
			}
		}
	}
	return out
}
