// Package oci finds models in registries of containers: artifacts of Docker's model
// runner, ModelPack, KitOps, and files that were pushed as they are.
//
//	oci://REGISTRY/REPOSITORY              its tag latest
//	oci://REGISTRY/REPOSITORY:TAG
//	oci://REGISTRY/REPOSITORY@sha256:HEX
//
// A manifest lists the layers; kinds.go is the table of layers that are files of models.
// Each layer is one entry of the cache, by its digest. The members of a plain tar archive
// are parts of it, which are found by reading only its headers. A compressed archive has no
// parts: if that is allowed, it is fetched into the cache and checked against its digest,
// and its members become entries of their own that replace it. No member is written under a
// name from the archive.
//
// Of a container the folder models is the model, as its layers leave it.
//
// Credentials are Docker's: config.json and the helpers that it names. Tokens go to
// the registry and nowhere else; where layers are is where it redirects to.
package oci
