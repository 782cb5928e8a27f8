package nfs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Records are what TCP carries (RFC 5531, 11): fragments, each after a word with its
// length, whose highest bit marks the last one.
//
//	| 1 | 31 bits: length | length bytes ... | 0 | length | ... | 1 | length | ...
//	last                                    not the last

const (
	lastFragment = 1 << 31
	// maxRecord is the longest request. Supported requests have some hundred bytes; WRITEs,
	// which are refused, have up to half of it by FSINFO.
	maxRecord = 64 << 10
	// maxFragments is how many fragments a record may have: as many as bytes.
	maxFragments = maxRecord
	// recordTime is how long a record may take once it has begun.
	recordTime = 30 * time.Second
)

var errRecord = errors.New("a record is not one of RPC")

// records reads the records of a connection.
type records struct {
	conn net.Conn
	r    *bufio.Reader
}

func newRecords(conn net.Conn) *records {
	return &records{conn, bufio.NewReaderSize(conn, 4<<10)}
}

// next waits for a record as long as it takes, and for the rest of one that has
// begun for recordTime.
func (r *records) next() ([]byte, error) {
	if r.r.Buffered() == 0 {
		if err := r.conn.SetReadDeadline(time.Time{}); err != nil {
			return nil, err
		}
		if _, err := r.r.Peek(1); err != nil {
			return nil, err
		}
	}
	if err := r.conn.SetReadDeadline(time.Now().Add(recordTime)); err != nil {
		return nil, err
	}
	return readRecord(r.r)
}

// readRecord joins the fragments of a record.
func readRecord(r io.Reader) (rec []byte, err error) {
	var mark [4]byte
	for range maxFragments {
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return nil, err
		}
		head := binary.BigEndian.Uint32(mark[:])
		n := int(head &^ lastFragment)
		if n > maxRecord-len(rec) {
			return nil, fmt.Errorf("%w: it has more than %d bytes", errRecord, maxRecord)
		}
		have := len(rec)
		rec = append(rec, make([]byte, n)...)
		if _, err := io.ReadFull(r, rec[have:]); err != nil {
			return nil, err
		}
		if head&lastFragment != 0 {
			return rec, nil
		}
	}
	return nil, fmt.Errorf("%w: it has more than %d fragments", errRecord, maxFragments)
}
