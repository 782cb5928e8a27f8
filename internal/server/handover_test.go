package server

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// What is handed over reaches the server whole, however large.
func TestHandOver(t *testing.T) {
	t.Setenv("AWS_BEFORE", "before")
	long := strings.Repeat("x", 120<<10)
	f, err := handOver("hf:a/b", []string{"/c:0.5", "hf:d/e"}, []string{"AWS_BEFORE=after", "AWS_LONG=" + long, "OTHER=1"})
	must(t, err)
	defer f.Close()
	t.Setenv("AWS_LONG", "")
	t.Setenv("OTHER", "")
	model, adapters, err := Handed(f)
	if err != nil || model != "hf:a/b" || strings.Join(adapters, " ") != "/c:0.5 hf:d/e" || os.Getenv("AWS_BEFORE") != "after" || os.Getenv("AWS_LONG") != long || os.Getenv("OTHER") != "" {
		t.Errorf("%q, %v", model, err)
	}
	if rest, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))); err != nil || rest != os.DevNull {
		t.Errorf("it can still be read: %s, %v", rest, err)
	}
}
