// Hub is a local Hugging Face Hub for scripts/try-cluster: with private models, each with
// its own token.
//
//	hub FILE.gguf REPOSITORY=TOKEN...
//
// It prints its address, and for each repository the id of its commit, and runs until it is ended.
package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
)

// process acts as a test: the hub ends with the process, which runs nothing else.
type process struct{ testing.TB }

func (process) Cleanup(func()) {}
func (process) Helper()        {}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: hub FILE.gguf REPOSITORY=TOKEN...")
		os.Exit(2)
	}
	model, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
	hub := testhub.NewHub(process{})
	fmt.Println(hub.URL)
	for _, arg := range os.Args[2:] {
		repository, token, _ := strings.Cut(arg, "=")
		hub.Private[repository] = token
		fmt.Println(hub.Commit(repository, map[string][]byte{"model.gguf": model}))
	}
	select {}
}
