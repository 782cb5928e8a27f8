// Package hub finds models by their names on the Hugging Face hub, in the cache that its
// own programs keep on this machine. It downloads nothing and opens no model: a [Name]
// becomes a directory, and package pick selects the model among its files.
//
//	hf:ORG/NAME                   the model of the repository: its safetensors, or its only GGUF model
//	hf:ORG/NAME:Q4_K_M            its GGUF model with that word in its name
//	hf:ORG/NAME/unet              a file or a directory of it; hf:ORG/NAME:a/b.gguf is the same
//	hf:ORG/NAME@v1.0:Q4_K_M       of a branch, a tag, refs/pr/1 or a commit
//	hf://ORG/NAME                 the same as hf:ORG/NAME
//
// A commit may be shortened to seven letters or more. Without a revision it is
// main, or the only snapshot that there is.
//
// The cache, as the Python package huggingface_hub lays it out:
//
//	models--ORG--NAME/
//	  refs/main                     commit id
//	  blobs/<id>                    contents
//	  snapshots/<commit>/FILE    -> ../../blobs/<id>
package hub
