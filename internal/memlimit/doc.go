// Package memlimit knows how much memory this process may take, and keeps it small.
//
// Hot files cannot be reclaimed under pressure: a process that takes too much memory for
// them is killed, or others are. [Allow] and [Left] say what the machine and the control
// groups of the process leave. [Follow] sets the soft limit of Go's heap, so that the
// pools of reply buffers do not grow without end.
package memlimit
