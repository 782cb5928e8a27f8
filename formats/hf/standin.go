package hf

import (
	"bytes"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// standIns are files often found in place of a model's.
var standIns = []struct{ start, problem, advice string }{
	{"version https://git-lfs", "it is a Git LFS pointer, not the file itself", `fetch the file with "git lfs pull"`},
	{"<!DOCTYPE", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"<!doctype", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"<html", "it is a web page, not the file", "fetch the file again; the page may say why the download failed"},
	{"PK\x03\x04", "it is a ZIP archive, as PyTorch writes its models", "convert the model to safetensors first"},
	{"\x80\x02", "it is a Python pickle, as PyTorch writes its models", "convert the model to safetensors first"},
}

// StandIn identifies a file that begins with head and has none of the formats,
// and says what to do. problem is "" if the file is not recognised.
func StandIn(head []byte) (problem, advice string) {
	for _, s := range standIns {
		if bytes.HasPrefix(head, []byte(s.start)) {
			return s.problem, s.advice
		}
	}
	return "", ""
}

// standIn returns a better error than the parser's, if there is one.
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
