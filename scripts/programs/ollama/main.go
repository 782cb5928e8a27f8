// Command convert writes a directory of Hugging Face's kind as a GGUF file with the converter that
// Ollama had until May 2026: convert DIRECTORY FILE.
package main

import (
	"fmt"
	"os"

	"github.com/ollama/ollama/convert"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: convert DIRECTORY FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := convert.ConvertModel(os.DirFS(dir), f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
