package architectures

import "slices"

// Words of layer_types for layers with attention.
const (
	WindowLayer = "sliding_attention" // its tokens see a window
	FullLayer   = "full_attention"    // its tokens see all tokens before them
)

// IsWindow reports whether an entry of layer_types is a layer with a window. Without ok the layer
// is of another kind, such as linear attention or a convolution.
func IsWindow(kind any) (window, ok bool) {
	return kind == WindowLayer, kind == WindowLayer || kind == FullLayer
}

// Windows returns for each layer whether it has a window, if one of every period layers has full
// attention: the first of them or the last. With a period of 0 all have a window.
func Windows(layers int, period int64, first bool) []bool {
	list := make([]bool, layers)
	for i := range list {
		n := int64(i)
		if !first {
			n++
		}
		list[i] = period == 0 || n%period != 0
	}
	return list
}

// WindowPeriod returns the smallest period with which Windows returns the list, which is longer
// than the list if full attention does not repeat, and 0 if no period returns the list.
func WindowPeriod(list []bool, first bool) int64 {
	n := slices.Index(list, false) + 1
	if first && n == 1 { // where the second period begins
		n = slices.Index(list[1:], false) + 1
	}
	if n == 0 {
		n = len(list) + 1
	}
	if !slices.Equal(list, Windows(len(list), int64(n), first)) {
		return 0
	}
	return int64(n)
}
