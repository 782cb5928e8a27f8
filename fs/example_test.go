package fs_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

// Mount your own data, and serve it until the user interrupts the program or unmounts it. Entries
// may be in any order, and anything with ReadAt and Size is Data.
func ExampleMount() {
	weights := bytes.NewReader(make([]byte, 1<<20))
	root := tensorfs.Entries{
		{Name: "weights.bin", Data: weights},
		{Name: "README", Data: tensorfs.Bytes("A megabyte of zeros.\n")},
		{Name: "layers", Dir: tensorfs.Entries{
			{Name: "1", Data: tensorfs.Section(weights, 512<<10, 512<<10)},
			{Name: "0", Data: tensorfs.Section(weights, 0, 512<<10)},
		}},
		{Name: "latest", Link: "layers/1"},
	}
	server, err := fs.Mount(root, "/mnt/weights", fs.Options{MakeMountpoint: true})
	if err != nil {
		log.Fatal(err)
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	select {
	case <-interrupt:
		if err := server.Unmount(); err != nil {
			log.Print(err) // a program has a file open: Wait waits for it
		}
	case <-server.Done():
	}
	server.Wait()
}

// squares is a directory of a million files that are made when they are opened. Names have seven
// digits, so that sorting them sorts the numbers.
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

// A large directory gives its entries by index, in the order of their names, and so
// costs no memory per file.
func ExampleMount_large() {
	tree := tensorfs.Entries{{Name: "squares", Dir: squares{}}}
	file, err := tensorfs.Find(tree, "squares/0000012")
	if err != nil {
		log.Fatal(err)
	}
	text := make([]byte, file.Data.Size())
	if err := tensorfs.ReadFull(file.Data, text, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s holds %s", file.Name, text)
	// Mount it: fs.Mount(tree, "/mnt/squares", fs.Options{})

	// Output:
	// 0000012 holds 144
}
