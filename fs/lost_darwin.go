package fs

// readable is never asked: no reply stands in mapped memory here.
func readable([]byte) bool { return true }
