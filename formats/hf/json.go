package hf

import (
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxJSON bounds the JSON files of a model. The index of 90,000 tensors has 10 MB.
const maxJSON = 100 << 20

// optionalObject reads a JSON file that may be missing.
func optionalObject(d *folder, name string) (jsonobj.Object, error) {
	if !d.has(name) {
		return jsonobj.Object{}, nil
	}
	return readObject(d, name)
}

// readObject reads a JSON file whose top-level value is an object.
func readObject(d *folder, name string) (jsonobj.Object, error) {
	f, err := d.take(name)
	if err != nil {
		return jsonobj.Object{}, err
	}
	defer f.Close()
	b, err := source.ReadAll(f, f.Path(), maxJSON)
	if err != nil {
		return jsonobj.Object{}, err
	}
	return jsonobj.ParseFile(f.Path(), b)
}
