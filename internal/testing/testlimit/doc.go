// Package testlimit holds what tests may ask of time, so that none asserts
// seconds: a test that does fails on a slower machine, or under the race
// detector, and says nothing there.
//
//   - Work bounds processor time by that of a known piece of work, which is done
//     on the same machine, in the same build and at the same time.
//   - Growth compares n with 4n.
//   - Allocated counts bytes, which are the same everywhere.
//   - Wait, Receive and Return wait for what must come, and give up only when it
//     will not come at all.
//
// What measures counts the whole process, so it is not for parallel tests.
package testlimit
