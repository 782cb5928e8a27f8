package metal

// CacheMode says what a Load does with converted tensors on disk.
type CacheMode uint8

const (
	// CacheRead maps those that are there.
	CacheRead CacheMode = iota
	// CacheOff maps no files but the model's own.
	CacheOff
	// CacheReadWrite also writes those that are not there, where the Tree is a
	// [Preparer].
	CacheReadWrite
)

// LoadOptions choose how tensors are loaded. The zero value is the default.
type LoadOptions struct {
	// Progress is called after each piece, never at the same time by two
	// goroutines. An error ends the load and is returned.
	Progress func(done, total int64) error
	Workers  int // 0 for as many as there are processors
	Cache    CacheMode
	// Resident keeps the buffers of the set resident, where the device can.
	Resident bool
}

// Plan is what a Load would do.
type Plan struct {
	Model, Cache, Memory int64    // bytes of tensors by origin; bytes under two names count once
	Windows              []Window // device buffers over parts of files, those that exist left out
	Arenas               []int64  // lengths of the device's own buffers
	Need                 int64    // bytes that count against the limit
	Limit                int64    // 0 for none
}

// Window is a part of a file that becomes one buffer of the device.
type Window struct {
	File   string
	Offset int64
	Bytes  int64
	Origin Origin
}
