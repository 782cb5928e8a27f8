// Package testweb serves files to tests by HTTP as plain servers do, with their
// faults, and puts latency and a limited rate before them.
package testweb
