//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
)

// streamed is how much is read from a server whose memory is watched.
const streamed = 4 << 30

// Aims for the server's own memory, in bytes.
const (
	mostMemory = 64 << 20
	mostGrowth = 16 << 20
)

// memory watches the server's anonymous memory while everything goes through
// it: what it keeps for itself, and not the pages of the model, which the kernel
// counts as shared.
func (b *bench) memory() error {
	size := b.partMiB() // read again and again
	bf16, err := b.ggufModel(tensorfs.BF16, size)
	if err != nil {
		return err
	}
	q4k, err := b.ggufModel(tensorfs.Q4_K, size)
	if err != nil {
		return err
	}
	vocab, err := b.smallTensors(vocabTensors, vocabulary)
	if err != nil {
		return err
	}
	total := int64(streamed)
	if b.quick {
		total /= 4
	}
	b.heading("The server's memory (RssAnon)", nil)
	rows := [][]string{{"what", "when mounted", "at most in the first quarter", "at most later", "at the end", "aims: at most, growth", "met"}}
	for _, c := range []struct {
		name  string
		model *model
		files []string
		total int64
	}{
		{"raw of BF16, one reader", bf16, []string{"raw/" + tensor}, total},
		{"f16 of Q4_K, one reader", q4k, []string{"f16/" + tensor}, total},
		{"four views of Q4_K, four readers at once", q4k, []string{"raw/" + tensor, "f16/" + tensor, "npy/" + tensor + ".npy", "packed/" + tensor}, total},
		{"metadata.json of 262144 tokens", vocab, []string{"metadata.json"}, total / 8},
	} {
		row, err := b.watch(c.model, c.files, c.total)
		if err != nil {
			return err
		}
		rows = append(rows, append([]string{fmt.Sprintf("%s, %s", c.name, mib(c.total))}, row...))
		b.say("  %s", c.name)
	}
	b.table(rows)
	return nil
}

// watch streams files, total bytes together, and returns the cells of a row.
func (b *bench) watch(m *model, files []string, total int64) ([]string, error) {
	s, err := b.mount(m)
	if err != nil {
		return nil, err
	}
	status := fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)
	rss := func() int64 { return kibAt(status, "RssAnon:") }
	mounted := rss()
	var most [2]int64 // in the first quarter, later
	for i, part := range []int64{total / 4, total - total/4} {
		done := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				most[i] = max(most[i], rss())
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		err := b.streams(s, files, part)
		close(done)
		watching.Wait()
		if err != nil {
			return nil, err
		}
	}
	end := rss()
	all := max(most[0], most[1])
	if all == 0 {
		return nil, errors.New("this kernel does not tell RssAnon")
	}
	return []string{mib(mounted), mib(most[0]), mib(most[1]), mib(end), mib(mostMemory) + ", " + mib(mostGrowth),
		verdict(all <= mostMemory && most[1]-most[0] <= mostGrowth)}, b.unmount(s)
}

// streams reads files at the same time, total bytes together.
func (b *bench) streams(s *server, files []string, total int64) error {
	cmds := make([]*reading, len(files))
	for i, f := range files {
		var err error
		if cmds[i], err = b.startRead("stream", s.path(f), strconv.FormatInt(total/int64(len(files)), 10)); err != nil {
			return err
		}
	}
	var errs []error
	for _, c := range cmds {
		_, err := c.wait()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
