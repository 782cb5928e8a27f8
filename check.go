package tensorfs

// Checker is Data that knows, without reading, whether its bytes can still be read.
type Checker interface {
	// Check returns an error that wraps ErrChanged once a file that the bytes come
	// from has changed since it was opened.
	Check() error
}

// Check asks d whether its bytes can still be read. It returns nil where d knows
// of no file that changed.
func Check(d Data) error {
	if c, ok := d.(Checker); ok {
		return c.Check()
	}
	return nil
}
