package fs

// readable is never called: no reply is in mapped memory here.
func readable([]byte) bool { return true }
