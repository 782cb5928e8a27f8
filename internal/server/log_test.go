package server

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

// A log that takes nothing costs one wait, and what was lost is counted.
func TestLogQueue(t *testing.T) {
	var written []string
	gate := make(chan struct{})
	q := newLogQueue(func(_ slog.Level, line []byte) { <-gate; written = append(written, string(line)) })
	for i := range logBacklog + 50 {
		q.put(slog.LevelInfo, []byte(strconv.Itoa(i)))
	}
	close(gate)
	q.close()
	lost := 50 - 1 // the first one left the queue before
	if len(written) != logBacklog+2 || written[0] != "0" || !strings.Contains(strings.Join(written, " "), "lost="+strconv.Itoa(lost)) {
		t.Errorf("%d lines: %.300q", len(written), written)
	}
}
