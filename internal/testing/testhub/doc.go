// Package testhub is a Hugging Face Hub and a registry of Ollama models in the
// test's own process, with the answers, headers and redirects of the real ones, and
// a second server that has the data. They record what they are asked, and fail as
// they are told.
package testhub
