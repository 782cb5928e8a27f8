package tensorfs

// Checker is Data that knows, without reading, whether its bytes can still be had.
type Checker interface {
	// Check returns an error that wraps ErrChanged once a file that the bytes
	// come from is another than it was when it was opened.
	Check() error
}

// Check asks d whether its bytes can still be had: nil where it knows of no file
// that changed.
func Check(d Data) error {
	if c, ok := d.(Checker); ok {
		return c.Check()
	}
	return nil
}
