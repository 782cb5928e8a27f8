// Command goengine maps a tensor of a mounted model: goengine MOUNT VIEW NAME
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tensorfs/tensorfs/metal"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: goengine MOUNT VIEW NAME")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(mount, view, name string) error {
	model, err := metal.Open(mount, metal.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	info, err := model.Info(view, name)
	if err != nil {
		return err
	}
	// Read it ahead with all cores, so that nothing below waits for the disk.
	if err := model.Prefetch(context.Background(), []metal.Ref{info.Ref}, nil); err != nil {
		return err
	}
	t, err := model.Tensor(view, name)
	if err != nil {
		return err
	}
	defer t.Release()
	sum := 0
	// View turns a lost mount into an error; t.Contents is the same memory without that.
	err = t.View(func(p []byte) error {
		for _, b := range p {
			sum += int(b)
		}
		return nil
	})
	fmt.Println(name, info.DType, info.Shape, t.Size, "bytes, sum", sum)
	return err
}
