// Command goweights loads a model without a mount: goweights MODEL [VIEW]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/metal"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: goweights MODEL [VIEW]")
	}
	view := "packed"
	if len(os.Args) == 3 {
		view = os.Args[2]
	}
	if err := run(os.Args[1], view); err != nil {
		log.Fatal(err)
	}
}

func run(name, view string) (err error) {
	// A file, a directory, ollama:NAME, hf:ORG/NAME, https://..., or a mounted or exported tree.
	client := remote.New(remote.Options{})
	defer client.Close()
	model, err := metal.Open(name, metal.Options{Views: []string{view}, Model: client.Formats(context.Background())})
	if err != nil {
		return err
	}
	defer model.Close()
	config, err := model.Config()
	if err != nil {
		return err
	}
	fmt.Println(config.Architecture, config.NLayers, "layers", config.Dim, "wide", model.MetaString("general.name", "no name"))

	var weights []metal.Ref
	for _, tensor := range model.Names(view) {
		weights = append(weights, metal.Ref{View: view, Name: tensor})
	}
	// What has to be converted is kept, so the next start maps it.
	set, err := model.Load(context.Background(), weights, metal.LoadOptions{Cache: metal.CacheReadWrite})
	if err != nil {
		return err
	}
	defer set.Release()
	bytes := map[metal.Origin]int64{}
	for _, ref := range set.Refs() {
		b, _ := set.Buffer(ref) // b.Handle and b.Offset are for the GPU
		bytes[b.Origin] += b.Size
	}
	fmt.Println(len(weights), "tensors;", "bytes from the model", bytes[metal.OriginModel], "from converted files", bytes[metal.OriginCache], "in memory", bytes[metal.OriginMemory])

	// One matrix for a kernel that takes q, k and v at once.
	const attention = "layers.0.attention."
	qkv, err := model.Fused(view, attention+"q.weight", attention+"k.weight", attention+"v.weight")
	if err != nil {
		fmt.Println("not joined:", err)
		return nil
	}
	defer qkv.Release()
	fmt.Println("q, k and v joined:", qkv.Size, "bytes")
	return nil
}
