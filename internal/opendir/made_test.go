package opendir

import (
	"os"
	"sync"
	"testing"
)

// Commands that use one directory in turn remove it when they are done: who makes it at that
// moment has it all the same.
func TestMakeSubBesideRemoval(t *testing.T) {
	at, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 2000 {
				sub, err := at.MakeSub("stage", 0o700)
				if err != nil {
					t.Error(err)
					return
				}
				sub.Close()
				if err := at.RemoveDir("stage"); err != nil && !os.IsNotExist(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	calls.Wait()
}
