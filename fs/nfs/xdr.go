package nfs

import "encoding/binary"

// decoder reads XDR (RFC 4506): numbers are big-endian, and everything takes a
// multiple of 4 bytes. After an error all that is read is zero and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

// fixed returns the next n bytes and skips what pads them. They are the record's own.
func (d *decoder) fixed(n uint32) []byte {
	padded := (uint64(n) + 3) &^ 3
	if d.bad || padded > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[padded:]
	return p
}

func (d *decoder) uint32() uint32 {
	if p := d.fixed(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if p := d.fixed(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// opaque returns bytes that say how many they are; more than most are an error.
func (d *decoder) opaque(most uint32) []byte {
	n := d.uint32()
	if n > most {
		d.bad = true
	}
	return d.fixed(n)
}

// encoder is a record that grows.
type encoder []byte

func (e *encoder) uint32(vs ...uint32) {
	for _, v := range vs {
		*e = binary.BigEndian.AppendUint32(*e, v)
	}
}

func (e *encoder) uint64(vs ...uint64) {
	for _, v := range vs {
		*e = binary.BigEndian.AppendUint64(*e, v)
	}
}

func (e *encoder) bool(v bool) {
	if v {
		e.uint32(1)
	} else {
		e.uint32(0)
	}
}

// text appends bytes after how many they are.
func (e *encoder) text(s string) {
	e.uint32(uint32(len(s)))
	*e = append(*e, s...)
	*e = append(*e, zeros[:padding(len(s))]...)
}

var zeros [4]byte

// padding returns how many bytes follow n bytes up to a multiple of 4.
func padding(n int) int { return -n & 3 }
