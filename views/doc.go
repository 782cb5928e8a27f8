// Package views turns a model's tensors into the tensors of each view.
//
// A [View] is a function from tensors to tensors. It reads nothing: it composes
// [tensorfs.Data], and adds one kind of it, a stored tensor seen as another type:
// IEEE half, or what [Encode] is asked for. [Build] makes all views of a model,
// [Index] describes them as index.json.
//
// A view never guesses: it leaves out what it cannot show, and [Absent] gives the reason.
//
// The package decodes nothing itself (views/kernel does) and knows no file
// format.
package views
