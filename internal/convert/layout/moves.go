package layout

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Move is one way in which the two sides store the numbers of a module differently. The
// moves of a module are made one after the other towards GGUF, and undone in the other
// order.
type Move struct {
	// To and From convert one tensor: to GGUF's, and to a directory's. nil leaves it
	// unchanged.
	To, From func(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error)

	// Find returns the tensor that the other moves towards GGUF begin with, if it is joined
	// from several or computed without one; nil if the model does not have it. If Find is
	// nil, it is the tensor of the module's name.
	Find func(w *Walk, p *part) (*tensorfs.Tensor, error)

	// All puts all tensors of a module into a directory, if they do not correspond one to
	// one. The module's other moves are then skipped.
	All func(w *Walk, m *module) error

	InConfig bool // config.json has the numbers, and a directory no tensor
	AnyShape bool // a GGUF file has the module in several shapes, which From holds
}

// moves are what descriptions call the moves. The second column is modules.txt's.
var moves = map[string]Move{
	"heads":         {To: permuteHeads, From: unpermuteHeads},
	"head_columns":  {To: permuteColumns, From: unpermuteColumns, AnyShape: true},
	"fused_heads":   {To: permuteFused},
	"slots":         {To: slots},
	"sections":      {To: pairsApart, From: pairsTogether},
	"plus":          {To: plus, From: minus},
	"plus_mlx":      {To: plus, From: minusUnlessMLX},
	"half_negative": {To: halfNegative, From: halfNegative},
	"integers":      {To: narrowed, From: widened},
	"transpose":     {To: outIn, From: inOut},
	"row":           {From: oneRow, AnyShape: true},
	"groups":        {To: ungroup, From: group},
	"grouped":       {Find: partOfGroups},
	"sharded":       {To: unsharded},
	"thirds":        {To: oneAfterAnother, From: threeOfEachHead},
	"as":            {To: asHere, From: asThere},
	"as_turned":     {To: asHereTurned, From: asThereTurned},
	"kernel":        {To: kernelsHere, From: kernelsThere},
	"reshaped":      {To: reshapedHere, From: reshapedThere},
	"turned_by":     {To: turnedBy},
	"joined":        {Find: joinedModules, All: splitModules},
	"exchanged":     {To: exchanged, From: exchanged},
	"copied":        {Find: copied, All: leftOut},
	"once":          {Find: once},
	"of":            {All: rowsOfJoined},
	"part":          {Find: partOfJoined, All: joinParts},
	"times":         {To: times},
	"times_states":  {To: timesStates},
	"rescaled":      {To: rescaled, From: unscaled},
	"halved":        {To: halved},
	"neg_exp":       {To: negativeExp, From: ofNumbers(arrange.LogOfNegative)},
	"exp":           {To: exponential, From: ofNumbers(arrange.LogOf)},
	"centred":       {To: centred},
	"in_key":        {Find: intoKey, All: outOfKey},
	"filled":        {Find: filled, All: unfilled},
	"latent_k":      {Find: latentK, All: joinLatent},
	"latent_v":      {Find: latentV, All: withAnother},
	"stack":         {Find: stacked, All: stackOrEach},
	"numbered":      {Find: eachNumbered, All: splitNumbered},
	"padded":        {To: padTokens},
	"turned_half":   {Find: turnedHalf, All: sideBySide},
	"turned":        {Find: turnedStack, All: turnedBack},
	"alternate":     {Find: alternating, All: alternated},
	"keep":          {To: keepTokens},
	"tokens":        {Find: outputOrTokens},
	"answers":       {Find: answers},
	"unanswered":    {Find: unanswered},
	"unless_mlx":    {All: unlessMLX},
	"unless_tied":   {Find: outputUnlessTied},
	"positions":     {To: cutPositions, From: addPositions},
	"divisors":      {Find: ropeDivisors, InConfig: true},
	"proportional":  {Find: proportional, InConfig: true},
	"long_factor":   {Find: ropeFactors("long_factor"), InConfig: true},
	"short_factor":  {Find: ropeFactors("short_factor"), InConfig: true},

	// Of linear attention.
	"tiled":         {To: tiled, From: untiled},
	"tiled_columns": {To: tiledColumns, From: untiledColumns},
	"mixed_qkv":     {Find: mixedQKV, All: mix},
	"mixed_z":       {Find: mixedZ, All: withAnother},

	// Of vision towers.
	"frame":         {Find: frame, All: frames},
	"pixels":        {To: byColours, From: byPixels},
	"flat":          {To: listed, From: squared},
	"by_colour":     {To: colourByColour, From: pixelByPixel},
	"by_axis":       {To: otherAxisFirst, From: otherAxisFirst},
	"pairs_by_axis": {To: pairsByAxis, From: axesByPair},
	"but_first":     {To: butFirst, From: noFirst},
	"summed":        {To: summed, From: noFrames},
	"axes":          {To: axesTogether, From: axesApart},

	// Of audio towers.
	"column":    {To: biasOfColumns, From: biasOfNumbers, AnyShape: true},
	"plane":     {To: biasOfPlanes, From: biasOfNumbers, AnyShape: true},
	"sinusoids": {Find: sinusoids, InConfig: true},
	"row_of":    {Find: rowOfTokens, All: joinRows},
	"softplus":  {To: softplus, From: ofNumbers(arrange.InverseSoftplus)},
	"folded":    {Find: foldedNorm, All: unfoldedNorm},
}

// asStored finds the tensor of the module's name.
func asStored(w *Walk, p *part) (*tensorfs.Tensor, error) { return w.take(p.canonical()), nil }

// withAnother is for a module that is made with another one.
func withAnother(*Walk, *module) error { return nil }

// narrowed returns a table of integers as GGUF has it.
func narrowed(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.Integers(t, tensorfs.I32)
}

// widened returns such a table as PyTorch has it.
func widened(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.Integers(t, tensorfs.I64)
}

// loose returns a tensor whose rows can be moved: packed codes become MLX's if these have
// all numbers, and otherwise plain numbers. So do 8-bit floats, whose scales belong to
// blocks of rows.
func loose(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if t == nil || t.Quant == nil || t.Quant.ByRows() {
		return t, nil
	}
	if same, err := views.Same(t); err != nil || same != nil {
		return same, err
	}
	return plain(t)
}

// plain returns a tensor as plain numbers, of the type that holds them exactly. If programs
// do not compute with that type, it is F32 with a note of the type.
func plain(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if t.Quant == nil {
		return t, nil
	}
	to, exact, err := views.Exact(t)
	if err == nil && to.Kind() != tensorfs.KindFloat {
		to, exact, err = views.Plain(t)
	}
	if err != nil {
		return nil, err
	}
	if exact {
		return Encoded(t, to)
	}
	made, err := Encoded(t, tensorfs.F32)
	made.Float = to
	return made, err
}
