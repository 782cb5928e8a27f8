package hf

import (
	"bytes"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// standIns are files that people find where a model's should be.
var standIns = []struct{ start, problem, advice string }{
	{"version https://git-lfs", "it is a Git LFS pointer, which stands for the file", `fetch the file with "git lfs pull"`},
	{"<!DOCTYPE", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"<!doctype", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"<html", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"PK\x03\x04", "it is a ZIP archive, as PyTorch writes its models", "convert the model to safetensors first"},
	{"\x80\x02", "it is a Python pickle, as PyTorch writes its models", "convert the model to safetensors first"},
}

// StandIn says what a file is that begins with head and is none of the formats,
// and what to do; problem is "" where that is not known.
func StandIn(head []byte) (problem, advice string) {
	for _, s := range standIns {
		if bytes.HasPrefix(head, []byte(s.start)) {
			return s.problem, s.advice
		}
	}
	return "", ""
}

// standIn returns a better error than the parser's, where there is one.
func standIn(m source.File, err error) error {
	head := make([]byte, min(64, m.Size()))
	if tensorfs.ReadFull(m, head, 0) != nil {
		return err
	}
	if problem, advice := StandIn(head); problem != "" {
		return &tensorfs.FormatError{File: m.Path(), Offset: -1, Problem: problem, Advice: advice}
	}
	return err
}
