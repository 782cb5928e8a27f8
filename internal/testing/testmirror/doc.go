// Package testmirror starts nginx with the file of docs/examples that people copy, in
// front of the test's own Hub: what is tested is that file, with addresses and
// directories of the test in it.
package testmirror
