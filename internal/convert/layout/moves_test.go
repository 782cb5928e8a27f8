package layout

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestMoves: a move of the text is a value, and has both halves, or one where the other
// side does not need it.
func TestMoves(t *testing.T) {
	towardsGGUF := []string{"keep", "tokens", "divisors", "proportional", "long_factor", "short_factor", "times", "times_states", "centred", "unless_tied", "padded", "answers", "unanswered", "grouped", "sharded", "sinusoids", "turned_by", "halved", "once", "fused_heads", "slots"}
	fromGGUF := []string{"of", "row", "unless_mlx"}
	all := slices.Concat(architectures.Moves(), architectures.TowerMoves())
	for _, name := range all {
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
	for name := range moves {
		if !slices.Contains(all, name) {
			t.Errorf("the move %s is in no table of modules", name)
		}
	}
}
