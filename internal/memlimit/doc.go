// Package memlimit knows how much memory this process may take, and keeps it small. [Left]
// returns what the machine and the control groups of the process leave. [Follow] sets the
// soft limit of Go's heap, so that the pools of reply buffers do not grow without end.
package memlimit
