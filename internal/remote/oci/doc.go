// Package oci finds models in registries of containers: artifacts of Docker's model
// runner, ModelPack, KitOps, and files that were pushed as they are.
//
//	oci://REGISTRY/REPOSITORY              its tag latest
//	oci://REGISTRY/REPOSITORY:TAG
//	oci://REGISTRY/REPOSITORY@sha256:HEX
//
// A manifest says what the layers are; kinds.go is the table of those that are files
// of models. Each layer is one entry of the cache, by its digest, and so are the
// members of a plain tar archive, which are found by reading only its headers.
//
// Credentials are Docker's: config.json and the helpers that it names. Tokens go to
// the registry and nowhere else; where layers are is where it redirects to.
//
// What it does not do: decompress. A compressed layer has no parts that could be read
// by themselves.
package oci
