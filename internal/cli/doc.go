// Package cli is what the commands of a program share: errors and exit codes, tables, progress,
// JSON, and the terminal that people read the output on.
package cli
