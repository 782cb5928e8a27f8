package fs_test

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

// squares is a directory of a million files that are made when they are asked
// for. Names have seven digits, so that their order is that of the numbers.
type squares struct{}

func (squares) Len() int { return 1_000_000 }

func (squares) Entry(i int) tensorfs.Entry {
	return tensorfs.Entry{
		Name: fmt.Sprintf("%07d", i),
		Data: tensorfs.Bytes(strconv.Itoa(i*i) + "\n"),
		Attrs: func() []tensorfs.Attr {
			return []tensorfs.Attr{{Name: "user.root", Value: strconv.AppendInt(nil, int64(i), 10)}}
		},
	}
}

// A tree is entries sorted by name, or anything that gives them by index.
func ExampleDir() {
	tree := tensorfs.Entries{
		{Name: "README", Data: tensorfs.Bytes("Squares.\n")},
		{Name: "latest", Link: "squares/0999999"},
		{Name: "squares", Dir: squares{}},
	}
	for i := range tree.Len() {
		switch e := tree.Entry(i); {
		case e.Dir != nil:
			last := e.Dir.Entry(e.Dir.Len() - 1)
			fmt.Println(e.Name+"/", e.Dir.Len(), "files, the last of", last.Data.Size(), "bytes")
		case e.Link != "":
			fmt.Println(e.Name, "->", e.Link)
		default:
			fmt.Println(e.Name, e.Data.Size(), "bytes")
		}
	}
	// Output:
	// README 9 bytes
	// latest -> squares/0999999
	// squares/ 1000000 files, the last of 13 bytes
}

// Serve a tree until the user interrupts the program or unmounts it.
func ExampleMount() {
	server, err := fs.Mount(tensorfs.Entries{{Name: "squares", Dir: squares{}}}, "/mnt/squares", fs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	select {
	case <-interrupt:
		if err := server.Unmount(); err != nil {
			log.Print(err) // a program has a file open: wait for it
		}
	case <-server.Done():
	}
	server.Wait()
}
