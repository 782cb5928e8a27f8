// Package models opens a model with everything that a user can ask of it: adapters, merges, a
// vision tower, other types in gguf/ and mlx/, changed keys. It is the one door: the command, the
// loader of package metal, and through that the C interface and the Python package, open models
// with [Options] and nothing else, so an option means the same in all of them.
//
//	m, err := models.Open("hf:ORG/NAME", models.Options{
//		Files:   client.Formats(ctx), // of formats/remote; without it only models of this machine
//		LoRA:    []string{"adapter:0.5"},
//		Convert: models.Convert{GGUFType: "q4_k_m"},
//	})
//
// The options have the names, values and messages of the command's flags. A new one is a field
// and a row in [Convert.Fields].
package models
