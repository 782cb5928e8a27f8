package cache

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// FuzzEntry opens an entry whose files are the fuzzer's. It never fails, and gives
// no byte that its data file does not have.
func FuzzEntry(f *testing.F) {
	const size = 3*cell + 9
	s, err := Open(Options{Dir: f.TempDir(), Budget: 1 << 40})
	check(f, err)
	f.Cleanup(func() { s.Close() })
	id := ID{Key: "k", Size: size}
	meta := []byte(`{"version":1,"key":"k","size":393225,"source":"s","created":"2026-01-02T03:04:05Z"}`)
	state := append(stateHeader(size), 0x81, 2, 3, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0x12, 0, 0, 0)
	zeros := make([]byte, size)
	sums := stateHeader(size)
	for off := 0; off < size; off += cell {
		sums = binary.LittleEndian.AppendUint32(sums, sumOf(zeros[off:min(off+cell, size)]))
	}
	for _, s := range [][]byte{state, sums, state[:60], nil, bytes.Repeat([]byte{255}, 80)} {
		f.Add(s, meta, int64(size), []byte("\n"))
		f.Add(s, meta[:40], int64(size-1), []byte("sha256:\n"))
	}
	right, p := make([]byte, size), make([]byte, size)
	content("k", right, 0)
	f.Fuzz(func(t *testing.T, state, meta []byte, data int64, whole []byte) {
		clear(p)
		r := (&remote{key: "k"}).open(t, s, id)
		d := r.onDisk(t)
		check(t, r.e.Close())
		for name, text := range map[string][]byte{stateName: state, metaName: meta, wholeName: whole} {
			check(t, os.WriteFile(filepath.Join(d.place(), name), text, 0o600))
		}
		check(t, os.Truncate(filepath.Join(d.place(), dataName), max(data, -data, 0)%(2*size)))
		if _, err := s.List(); err != nil {
			t.Error(err)
		}
		r.open(t, s, id)
		defer r.e.Close()
		r.onDisk(t)
		missing := r.e.Missing(0, size)
		_, err := r.e.ReadAt(p, 0)
		if (err == nil) != (len(r.e.Missing(0, size)) == 0) || err == nil && len(missing) > 0 || err != nil && err != ErrAbsent {
			t.Errorf("missing %v, and reading it: %v", missing, err)
		}
		if i := different(p, zeros); err == nil && i >= 0 {
			t.Errorf("byte %d is none of the data", i)
		}
		_, err = s.sweep(PruneOptions{})
		check(t, err)
		for _, m := range r.e.Missing(0, size) {
			_, err := r.e.WriteAt(right[m.Off:m.Off+m.N], m.Off)
			check(t, err)
		}
		if len(r.e.Missing(0, size)) > 0 {
			t.Error("it takes nothing")
		}
		check(t, r.e.Forget())
	})
}

// FuzzMeta parses meta.json.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"key":"k","size":1,"modified":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"version":1,"key":"k","size":1e99}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMeta(text)
		if err == nil && (m.Key == "" || m.Size < 0 || m.Size > MaxSize) {
			t.Errorf("%+v", m)
		}
	})
}
