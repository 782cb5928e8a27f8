package tensorfs

// For tests from outside.
const MaxExtents = maxExtents

var CutExtents = cutExtents
