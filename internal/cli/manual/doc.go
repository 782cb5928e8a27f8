// Package manual makes manual pages of the help texts and flags of commands.
//
// The program does not contain it: scripts/package builds the program with the tag man, which then does nothing but write
// its pages to a directory.
package manual
