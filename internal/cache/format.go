package cache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// A state file, little-endian:
//
//	0   8  "tfscell2"
//	8   4  cell size
//	12  4  how often cells became absent that were there
//	16  8  size of the file that is cached
//	24 40  zeros
//	64     for each cell 4 bytes: 0, absent, or the CRC32C of its bytes (see sumOf)
//
// "tfscell1" had a byte for each cell, which an earlier version of the program
// mapped and changed while it ran: such an entry is started again.
const (
	headerSize = 64
	droppedAt  = 12
	sizeAt     = 16
	stateMagic = "tfscell2"
)

// MaxSize bounds the size of a file: its state then has 512 MiB.
const MaxSize = 16 << 40

// stateSize is the length of the state file for a file of the given size.
func stateSize(size int64) int64 { return headerSize + 4*cellsOf(size) }

func stateHeader(size int64) []byte {
	b := make([]byte, headerSize)
	copy(b, stateMagic)
	binary.LittleEndian.PutUint32(b[8:], CellSize)
	binary.LittleEndian.PutUint64(b[sizeAt:], uint64(size))
	return b
}

// checkHeader returns an error unless b begins the state of a file of that size.
func checkHeader(b []byte, size int64) error {
	want := stateHeader(size)
	if len(b) < headerSize || !bytes.Equal(b[:droppedAt], want[:droppedAt]) || !bytes.Equal(b[sizeAt:headerSize], want[sizeAt:]) {
		return fmt.Errorf("state: its header does not match a file of %d bytes in this version's format", size)
	}
	return nil
}

// meta is the content of meta.json. It is written once.
type meta struct {
	Version int       `json:"version"`
	Key     string    `json:"key"`
	Server  string    `json:"server,omitempty"`
	Size    int64     `json:"size"`
	Source  string    `json:"source"`
	Digest  string    `json:"digest,omitempty"`
	ModTime time.Time `json:"modified,omitzero"`
	Created time.Time `json:"created"`
	Private bool      `json:"private,omitempty"`
}

const (
	metaVersion = 1
	maxMeta     = 64 << 10
)

func parseMeta(b []byte) (*meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("meta.json: %w", err)
	}
	if m.Version != metaVersion || m.Key == "" || m.Size < 0 || m.Size > MaxSize {
		return nil, fmt.Errorf("meta.json: it does not describe a cache entry")
	}
	return &m, nil
}

// is reports whether m describes the file that id names. What is shared came from
// any server.
func (m *meta) is(id *ID, shared bool) bool {
	return m.Key == id.Key && m.Size == id.Size && m.Private == id.Private && (shared || m.Server == id.Server)
}
