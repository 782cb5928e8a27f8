// Models and values for the tests of tensorfs. It is a module of its own, without a package, so that go install does
// not fetch them.
module github.com/tensorfs/tensorfs/testdata

go 1.26.0
