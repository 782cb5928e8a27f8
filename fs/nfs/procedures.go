package nfs

// NFS version 3 (RFC 1813). An empty post_op_attr is one word of zero, and wcc_data are
// two.
var nfsProcedures = []procedure{
	0:  {run: null},
	1:  {run: (*call).getAttr, fails: true},
	2:  {run: readOnly, fails: true, words: 2}, // SETATTR
	3:  {run: (*call).lookup, fails: true, words: 1},
	4:  {run: (*call).access, fails: true, words: 1},
	5:  {run: (*call).readLink, fails: true, words: 1},
	6:  {run: (*call).read, fails: true, words: 1},
	7:  {run: readOnly, fails: true, words: 2}, // WRITE
	8:  {run: readOnly, fails: true, words: 2}, // CREATE
	9:  {run: readOnly, fails: true, words: 2}, // MKDIR
	10: {run: readOnly, fails: true, words: 2}, // SYMLINK
	11: {run: readOnly, fails: true, words: 2}, // MKNOD
	12: {run: readOnly, fails: true, words: 2}, // REMOVE
	13: {run: readOnly, fails: true, words: 2}, // RMDIR
	14: {run: readOnly, fails: true, words: 4}, // RENAME: of two directories
	15: {run: readOnly, fails: true, words: 3}, // LINK: of a file and a directory
	16: {run: (*call).readDir, fails: true, words: 1},
	17: {run: (*call).readDirPlus, fails: true, words: 1},
	18: {run: (*call).fsStat, fails: true, words: 1},
	19: {run: (*call).fsInfo, fails: true, words: 1},
	20: {run: (*call).pathConf, fails: true, words: 1},
	21: {run: readOnly, fails: true, words: 2}, // COMMIT
}

// Statuses of NFS version 3.
const (
	ok3            = 0
	errNoEnt       = 2
	errIO          = 5
	errAccess      = 13
	errNotDir      = 20
	errIsDir       = 21
	errInval       = 22
	errROFS        = 30
	errNameTooLong = 63
	errStale       = 70
	errBadHandle   = 10001
	errBadCookie   = 10003
	errTooSmall    = 10005
)

// readOnly answers what would modify, whatever it is about.
func readOnly(*call) uint32 { return errROFS }
