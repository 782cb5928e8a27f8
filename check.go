package tensorfs

// Checker is Data that knows, without reading, whether its bytes can still be read.
type Checker interface {
	// Check returns an error that wraps ErrChanged once a file that the bytes come
	// from has changed since it was opened.
	Check() error
}

// PartChecker is Data of several files, or of one among others, that can say it of
// some of its bytes alone.
type PartChecker interface {
	// CheckPart is Checker.Check for the bytes [off, off+n).
	CheckPart(off, n int64) error
}

// CheckPart asks d whether [off, off+n) can still be read, or, where d does not know
// that, whether all of it can.
func CheckPart(d Data, off, n int64) error {
	if c, ok := d.(PartChecker); ok {
		return c.CheckPart(off, n)
	}
	return Check(d)
}

// Check asks d whether its bytes can still be read. It returns nil where d knows
// of no file that changed.
func Check(d Data) error {
	if c, ok := d.(Checker); ok {
		return c.Check()
	}
	return nil
}
