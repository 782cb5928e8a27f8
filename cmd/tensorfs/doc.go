// Command tensorfs shows the tensors of a model as files.
//
// It introduces the rooms of the module to each other: formats opens the model,
// views compose its tensors, fs serves the tree. Each command is a file with an
// options struct and a run function that writes to the given streams; only main
// exits.
package main
