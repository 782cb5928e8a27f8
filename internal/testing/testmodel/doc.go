// Package testmodel writes tiny models of every format, and large ones that are
// all hole, for tests. Each format has its own file. It panics on models that
// its caller got wrong.
package testmodel
