package layout

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestMoves: a move of the text is a value, and has both halves, or one where the other
// side does not need it.
func TestMoves(t *testing.T) {
	towardsGGUF := []string{"keep", "tokens", "positions", "divisors", "long_factor", "short_factor"}
	fromGGUF := []string{"row", "unless_mlx"}
	for _, name := range architectures.Moves() {
		move, ok := moves[name]
		if !ok {
			t.Errorf("the move %s is not in the table", name)
			continue
		}
		if to := move.To != nil || move.Find != nil; to == slices.Contains(fromGGUF, name) {
			t.Errorf("%s has a half towards GGUF: %v", name, to)
		}
		if from := move.From != nil || move.All != nil; from == slices.Contains(towardsGGUF, name) {
			t.Errorf("%s has a half from GGUF: %v", name, from)
		}
	}
	if len(moves) != len(architectures.Moves()) {
		t.Error("a move is not in modules.txt")
	}
}
