// Command tensorfs shows the tensors of a model as files.
//
// It connects the module's packages: formats opens the model, views compose its tensors, fs
// serves the tree. Each command is a file with an options struct and a run function that
// writes to the given streams; only main exits.
package main
