package metal

import (
	"bytes"
	"os"
	"testing"
)

// What is written to a private buffer is in no other buffer, and not in the file.
func TestPrivate(t *testing.T) {
	const golden, name = "../testdata/gguf/llama-xs.q8_0.gguf", "layers.0.attention.q.weight"
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	host, err := NewHost(HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(golden, Options{Device: host})
	if err != nil {
		t.Fatal(err)
	}
	for view, origin := range map[string]Origin{"raw": OriginModel, "f16": OriginMemory} {
		shared, err := l.Tensor(view, name)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(shared.Contents)
		var all []Buffer
		for range 2 {
			b, err := l.Private(view, name)
			if err != nil {
				t.Fatal(err)
			}
			if b.Origin != origin || !bytes.Equal(b.Contents, want) {
				t.Errorf("%s: a private buffer is from %d, and its bytes are the tensor's: %v", view, b.Origin, bytes.Equal(b.Contents, want))
			}
			all = append(all, b)
		}
		clear(all[0].Contents)
		if !bytes.Equal(shared.Contents, want) || !bytes.Equal(all[1].Contents, want) {
			t.Errorf("%s: a write is seen in another buffer", view)
		}
		if err := l.Close(); err == nil {
			t.Fatal("the loader was closed with private buffers")
		}
		for _, b := range append(all, shared) {
			if err := b.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(golden); err != nil || !bytes.Equal(now, file) {
		t.Error("the file was changed", err)
	}
}
