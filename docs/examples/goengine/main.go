// Command goengine uses a tensor of a mounted or exported model: goengine DIRECTORY VIEW NAME
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
		log.Fatal("usage: goengine DIRECTORY VIEW NAME")
	}
	if err := run(os.Args[1], metal.Ref{View: os.Args[2], Name: os.Args[3]}); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, ref metal.Ref) error {
	model, err := metal.Open(dir, metal.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	info, err := model.Info(ref.View, ref.Name)
	if err != nil {
		return err
	}
	// An engine names all its tensors here: they are read and converted together.
	weights, err := model.Load(context.Background(), []metal.Ref{ref}, metal.LoadOptions{})
	if err != nil {
		return err
	}
	defer weights.Release()
	t, _ := weights.Buffer(ref)
	sum := 0
	// View turns a page that is lost into an error; t.Contents is the same memory without that.
	err = t.View(func(p []byte) error {
		for _, b := range p {
			sum += int(b)
		}
		return nil
	})
	fmt.Println(ref.Name, info.DType, info.Shape, t.Size, "bytes, sum", sum)
	return err
}
