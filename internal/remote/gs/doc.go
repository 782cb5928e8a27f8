// Package gs finds models in buckets of Google Cloud Storage, by its JSON API.
//
//	gs://BUCKET/KEY       an object, with the other files of a split GGUF model
//	gs://BUCKET/PREFIX/   all objects whose names begin with it, as a directory
//
// Where: STORAGE_EMULATOR_HOST, without credentials, else storage.googleapis.com.
// Who: see credentials.go; without credentials, requests are anonymous.
//
// An object is pinned by its generation. Each range asks for this generation, and each
// answer is compared with it, because emulators may ignore it. The server also states a
// checksum of the whole object, MD5 or CRC32C, with which complete files are compared. Other
// objects may have the same checksum, so it does not identify a file in the cache.
//
// What it does not do: write, and list more than one model's worth of objects.
package gs
