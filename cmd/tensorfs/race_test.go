//go:build race

package main

// raceFactor is how much more memory a process may take that is built like this.
const raceFactor = 6
