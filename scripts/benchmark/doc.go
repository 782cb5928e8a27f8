//go:build linux

// Command benchmark measures what a user of tensorfs waits for, on this machine,
// in one run, and prints Markdown tables. scripts/bench builds and starts it.
//
// # How it measures
//
// Absolute speeds say little: they change with the machine, its neighbours and
// the hour. So everything is measured beside something that anybody knows
// (reading the model's own file, copying it to a tmpfs, ls of a tmpfs), pass
// after pass, each pass running all variants in turn. A ratio is the median of
// the ratios within the passes; the first pass warms up and does not count.
//
// Readers are processes of their own: this program again, in a role (see
// reader.go). The models are made up (models.go), with ordinary numbers for
// scales, and stand in the page cache. Pages that a mount has cached are dropped
// by mounting anew; the machine's other caches are left alone. Before a row that
// needs new memory as much is touched and given back, because a virtual machine
// may have to get it from its host, at a tenth of the speed.
//
// # Files
//
//	main.go        flags, parts, cleaning up
//	sequential.go  reading whole tensors          listing.go  ls of 50,000 files
//	start.go       mounting, first byte, info     memory.go   the server's memory
//	kernels.go     decoding without a mount       table.go    medians and Markdown
//	mount.go       a mounted model                reader.go   the reading processes
//	models.go      the models                     machine.go  where it runs, and whether there is room
//	user.go        all of it as an ordinary user
//
// Whatever happens, mounts are unmounted and files removed: servers are children
// that a signal ends, and nothing is written outside of the run's directories.
//
// It needs Linux.
package main
