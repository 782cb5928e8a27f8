// Package testwatch is for tests of how changes of files are noticed, which
// depends on inotify: a user may have few instances, and a machine that is in use
// may have none left. [Need] skips a test there. [Without] makes such a place,
// whatever the machine has.
package testwatch
