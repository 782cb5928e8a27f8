package kernel

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestQuantiseMLX holds that codes, scales and biases of all golden rows equal MLX's, in each mode, from each dtype
// and by the rounding of the GPU and of the CPU.
func TestQuantiseMLX(t *testing.T) {
	rows, err := os.ReadFile(quantised + "rows.f32")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(quantised + "mlx.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.Split(lines.Text(), "\t")
		if line[0] == "rules" {
			continue
		}
		rules, from, mode := map[string]Rules{"gpu": GPU, "cpu": CPU}[line[0]], line[1], line[2]
		var bits, group int
		var left []int
		if _, err := fmt.Sscan(line[3]+" "+line[4], &bits, &group); err != nil {
			t.Fatal(err)
		}
		for _, row := range strings.Fields(strings.ReplaceAll(line[5], ",", " ")) {
			var n int
			if _, err := fmt.Sscan(row, &n); err != nil {
				t.Fatal(err)
			}
			left = append(left, n)
		}
		q, ok := LookupQuantiser(rules, mode, bits, group, from)
		if !ok {
			t.Fatalf("no quantiser for %v", line)
		}
		src := roundedRows(rows, roundings[from], left)
		n := len(src) / 4 / group
		codes, scales, biases := make([]byte, n*q.Codes), make([]byte, n*q.Scale), make([]byte, n*q.Bias)
		q.Quantise(codes, scales, biases, src)
		for i, made := range [][]byte{codes, scales, biases} {
			if sum := sha256.Sum256(made); len(made) > 0 && hex.EncodeToString(sum[:]) != line[6+i] {
				t.Errorf("%s: %s differ", strings.Join(line[:5], " "), []string{"codes", "scales", "biases"}[i])
			}
		}
		// Streams are the same one by one, and groups in parts.
		at := n / 3
		again := [][]byte{make([]byte, len(codes)), make([]byte, len(scales)), make([]byte, len(biases))}
		for _, part := range [][2]int{{0, at}, {at, n}} {
			a, b := part[0], part[1]
			src := src[4*group*a : 4*group*b]
			q.Quantise(again[0][a*q.Codes:b*q.Codes], nil, nil, src)
			q.Quantise(nil, again[1][a*q.Scale:b*q.Scale], nil, src)
			q.Quantise(nil, nil, again[2][a*q.Bias:b*q.Bias], src)
		}
		if !bytes.Equal(again[0], codes) || !bytes.Equal(again[1], scales) || !bytes.Equal(again[2], biases) {
			t.Errorf("%v: parts differ from all", line[:5])
		}
		cases++
	}
	if cases != 21*5+2 {
		t.Errorf("%d cases", cases)
	}
}

// roundedRows are the golden rows in a dtype, widened again, without the rows that are left out.
func roundedRows(rows []byte, round func(float32) float32, left []int) []byte {
	const size = 4 * 512
	var out []byte
	for i := range len(rows) / size {
		if slices.Contains(left, i) {
			continue
		}
		for b := rows[i*size:][:size]; len(b) > 0; b = b[4:] {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(round(numberF32(b))))
		}
	}
	return out
}

// TestE4M3: rounding undoes what decodes, and what lies between goes to the nearer code.
func TestE4M3(t *testing.T) {
	for c := range 0x7F {
		for _, sign := range []uint8{0, 0x80} {
			if got := toE4M3(e4m3[uint8(c)|sign]); got != uint8(c)|sign {
				t.Errorf("code %#x becomes %#x", uint8(c)|sign, got)
			}
		}
		if c == 0x7E {
			continue
		}
		middle := (e4m3[c] + e4m3[c+1]) / 2
		for _, x := range []struct {
			v    float32
			want int
		}{{middle, c + c&1}, {math.Nextafter32(middle, 0), c}, {math.Nextafter32(middle, 1000), c + 1}} {
			if got := toE4M3(x.v); got != uint8(x.want) {
				t.Errorf("%v becomes %#x, want %#x", x.v, got, x.want)
			}
		}
	}
}

// TestQuantiseNothingElse: what MLX has no groups for has no quantiser.
func TestQuantiseNothingElse(t *testing.T) {
	for _, c := range []struct {
		mode        string
		bits, group int
		from        string
	}{{"affine", 7, 64, "BF16"}, {"affine", 4, 16, "BF16"}, {"affine", 4, 64, "F64"}, {"mxfp4", 8, 32, "F16"}, {"mxfp4", 4, 64, "F16"}, {"nvfp4", 4, 32, "F16"}, {"", 4, 32, "F16"}} {
		if _, ok := LookupQuantiser(GPU, c.mode, c.bits, c.group, c.from); ok {
			t.Errorf("%v has one", c)
		}
	}
}

// TestQuantiseAnything holds that codes fit into their bits for any numbers, also for numbers that MLX refuses.
func TestQuantiseAnything(t *testing.T) {
	strange := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for _, m := range quantiserModes {
		for _, bits := range m.bits {
			for _, group := range m.groups {
				for _, rules := range []Rules{GPU, CPU} {
					q, _ := LookupQuantiser(rules, m.mode, bits, group, "F32")
					for i, a := range strange {
						for _, b := range strange[i:] {
							src := make([]byte, 0, 4*group)
							for j := range group {
								src = binary.LittleEndian.AppendUint32(src, math.Float32bits([]float32{a, b}[j&1]))
							}
							q.Quantise(make([]byte, q.Codes), make([]byte, q.Scale), make([]byte, q.Bias), src)
						}
					}
				}
			}
		}
	}
}
