package layout

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// ropeDivisors makes the divisors of the frequencies of Llama 3. PyTorch computes them
// in F32, and rounds after every step: so does this, to the same bits.
func ropeDivisors(w *Walk, p *part) (*tensorfs.Tensor, error) {
	// The rows of q determine how long a head is, or its norm, if layers differ in heads. A
	// list is as long as that, so config.json must not be the only evidence.
	name, dims := "layers.0.attention.q.weight", []string{"q", "width"}
	if len(p.args) > 0 {
		name, dims = "layers.0.attention.q_norm.weight", []string{"head"}
	}
	t := w.tensor(name)
	if t == nil {
		return nil, fmt.Errorf("the tensor %s is missing, whose shape is the length of a head", name)
	}
	if err := w.shaped(t, dims, ".weight"); err != nil {
		return nil, err
	}
	real := func(without float64, names ...string) float64 {
		for _, name := range names {
			if v, ok := w.facts(name).(float64); ok {
				return v
			}
		}
		return without
	}
	if len(p.args) > 0 {
		values := PartDivisors(w.Sizes.Len("head"), w.Sizes.Len(p.args[0]), real(10000, "rope_theta"), real(8, "rope.factor"),
			real(1, "rope.low_freq_factor"), real(4, "rope.high_freq_factor"), real(8192, "rope.original_max_position_embeddings"))
		return float32s("rope_freqs", values), nil
	}
	values := Llama3Divisors(w.Sizes.Len("head"), real(10000, "rope_theta", "assumed.rope_theta"), float32(real(8, "rope.factor")),
		float32(real(1, "rope.low_freq_factor")), float32(real(4, "rope.high_freq_factor")), float32(real(8192, "rope.original_max_position_embeddings")))
	return float32s("rope_freqs", values), nil
}

// PartDivisors are the divisors of a partly rotated head; the rest is not divided.
// llama.cpp's converter computes them in F64, except the frequencies.
func PartDivisors(head, turned int64, theta, factor, low, high, original float64) []float32 {
	values := slices.Repeat([]float32{1}, int(head/2))
	for i := range min(turned, head) / 2 {
		frequency := float32(1) / float32(math.Pow(theta, float64(float32(2*i)/float32(turned))))
		switch wave := 2 * math.Pi / float64(frequency); {
		case wave < original/high:
		case wave > original/low:
			values[i] = float32(factor)
		default:
			smooth := (original/wave - low) / (high - low)
			values[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return values
}

// Still is what makes a pair of numbers stand still where it divides their frequency.
const Still = 1e30

// proportional computes the divisors of partly rotated heads, in the layers with full
// attention, which have the largest heads.
func proportional(w *Walk, _ *part) (*tensorfs.Tensor, error) {
	pairs := int64(0)
	for n := range w.Layers {
		if t := w.tensor(fmt.Sprintf("layers.%d.attention.k_norm.weight", n)); t != nil && len(t.Numbers()) == 1 {
			pairs = max(pairs, t.Numbers()[0]/2)
		}
	}
	share, ok := w.facts("rope.partial_rotary_factor").(float64)
	if !ok {
		share = 0.25
	}
	turned := int64(share * float64(pairs))
	if pairs < 1 || share <= 0 || share > 1 {
		return nil, fmt.Errorf("%v is not a part of a head of %d pairs", share, pairs)
	}
	values := make([]float32, pairs)
	for i := range values {
		if values[i] = Still; int64(i) < turned {
			values[i] = 1
		}
	}
	return float32s("rope_freqs", values), nil
}

// Llama3Divisors returns the divisors of a head's frequencies: 1 for short waves, factor
// for long ones, and something between. GGUF files store the scaling that config.json calls
// llama3 in this form.
func Llama3Divisors(head int64, theta float64, factor, low, high, original float32) []float32 {
	values := make([]float32, head/2)
	for i := range values {
		power := float32(math.Pow(theta, float64(float32(2*i)/float32(head))))
		frequency := float32(1) / power
		wave := float32(float32(1)/frequency) * float32(2*math.Pi)
		switch {
		case wave < original/high:
			values[i] = 1
		case wave > original/low:
			values[i] = factor
		default:
			turns := float32(float32(1)/wave) * original
			smooth := float32(turns-low) / float32(high-low)
			values[i] = 1 / float32(float32(float32(1-smooth)/factor)+smooth)
		}
	}
	return values
}

// ropeFactors makes one of the config's lists, by the name of its field.
func ropeFactors(field string) func(w *Walk, _ *part) (*tensorfs.Tensor, error) {
	return func(w *Walk, _ *part) (*tensorfs.Tensor, error) {
		list, _ := w.facts("rope." + field).([]float64)
		if list == nil {
			return nil, fmt.Errorf("config.json gives no %s for its rope scaling", field)
		}
		values := make([]float32, len(list))
		for i, v := range list {
			values[i] = float32(v)
		}
		return float32s(field, values), nil
	}
}

// float32s is a tensor that no file has.
func float32s(name string, values []float32) *tensorfs.Tensor {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return &tensorfs.Tensor{Name: name, Source: name, DType: tensorfs.F32, Shape: []int64{int64(len(values))}, Data: tensorfs.Bytes(b)}
}
