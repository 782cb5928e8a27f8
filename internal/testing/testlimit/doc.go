// Package testlimit has limits of time for tests, so that no test asserts seconds: such a
// test fails on a slower machine, or under the race detector, without a fault in the code.
//
//   - Work bounds processor time by the time of a known piece of work, which is done
//     on the same machine, in the same build and at the same time.
//   - Growth compares n with 4n.
//   - Allocated counts bytes, which are the same everywhere.
//   - Wait, Receive and Return wait for what must come, and give up only when it
//     will not come at all.
//
// What measures counts the whole process, so it is not for parallel tests.
package testlimit
