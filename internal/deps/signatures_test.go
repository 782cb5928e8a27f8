package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unfinished are exported names that have internal types all the same, for now.
var unfinished = []string{"formats/tokenizer.Options"}

// unnamed are internal types in exported fields and results, and why no program outside of the
// module has to name them.
var unnamed = map[string]string{
	"internal/convert.Options": "programs outside set the fields of formats/models.Options, from which it follows",
	"internal/convert.Files":   "programs outside get it from a tree, and only read its fields",
}

// TestPublicSignatures holds that programs outside of the module can use all that a
// public package exports: no exported function, method, field, variable or constant
// has a type of an internal package that they would have to name.
func TestPublicSignatures(t *testing.T) {
	public := 0
	for _, p := range compiled(t) {
		if !isPublic(p.Path()) {
			continue
		}
		public++
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() && !slices.Contains(unfinished, strings.TrimPrefix(p.Path(), module+"/")+"."+name) {
				for _, where := range hidden(o) {
					t.Errorf("%s.%s: programs outside of the module cannot name %s", p.Path(), name, where)
				}
			}
		}
	}
	if public < 20 {
		t.Errorf("only %d public packages", public)
	}
}

// isPublic reports whether programs outside of the module can import a package.
func isPublic(path string) bool {
	return path == module || strings.HasPrefix(path, module+"/") && !strings.Contains(path, "/internal/")
}

// compiled returns the module's packages but commands, as compiled.
func compiled(t *testing.T) (all []*types.Package) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Name,Standard", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	exports := map[string]string{}
	var names []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Name string
			Standard                 bool
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath+"/", module+"/") && p.Name != "main" {
			names = append(names, p.ImportPath)
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})
	for _, name := range names {
		if exports[name] == "" {
			continue // it has nothing but tests
		}
		p, err := from.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// hidden returns the internal types that users of an exported object meet, and where.
func hidden(o types.Object) (found []string) {
	add := func(where string, t types.Type) {
		for _, name := range internalTypes(t, map[types.Type]bool{}) {
			found = append(found, where+" "+name)
		}
	}
	name, isType := o.(*types.TypeName)
	if !isType {
		add("its", o.Type())
		return found
	}
	t := types.Unalias(name.Type())
	add("the", t)
	named, ok := t.(*types.Named)
	if !ok {
		return found
	}
	add("its", named.Underlying())
	methods := types.NewMethodSet(types.NewPointer(named))
	for i := range methods.Len() {
		if m := methods.At(i).Obj(); m.Exported() {
			add(m.Name()+"'s", m.Type())
		}
	}
	return found
}

// internalTypes returns the names of the internal types in a type. Other named types are checked at
// their declarations.
func internalTypes(t types.Type, seen map[types.Type]bool) (found []string) {
	if seen[t] {
		return nil
	}
	seen[t] = true
	of := func(parts ...types.Type) {
		for _, x := range parts {
			found = append(found, internalTypes(x, seen)...)
		}
	}
	switch x := t.(type) {
	case *types.Alias:
		of(types.Unalias(x))
	case *types.Named:
		if p := x.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), module+"/") && !isPublic(p.Path()) {
			if name := strings.TrimPrefix(p.Path(), module+"/") + "." + x.Obj().Name(); unnamed[name] == "" {
				found = append(found, name)
			}
		}
		of(slices.Collect(x.TypeArgs().Types())...)
	case *types.Pointer:
		of(x.Elem())
	case *types.Slice:
		of(x.Elem())
	case *types.Array:
		of(x.Elem())
	case *types.Chan:
		of(x.Elem())
	case *types.Map:
		of(x.Key(), x.Elem())
	case *types.Tuple:
		for v := range x.Variables() {
			of(v.Type())
		}
	case *types.Signature:
		of(x.Params(), x.Results())
	case *types.Struct:
		for v := range x.Fields() {
			if v.Exported() {
				of(v.Type())
			}
		}
	case *types.Interface:
		for m := range x.Methods() {
			of(m.Type())
		}
	}
	return found
}
