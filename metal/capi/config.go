package main

// #include "shim.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unsafe"
)

// newConfig returns config.json in the struct of tensorfs.h: each field of the
// struct has the name of its field there, and a list is followed by its count.
func newConfig(a *arena, text []byte) (*C.tensorfs_config, error) {
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	c := one[C.tensorfs_config](a)
	t := reflect.TypeOf(*c)
	for i := range t.NumField() {
		f := t.Field(i)
		value, ok := fields[f.Name]
		switch p := unsafe.Add(unsafe.Pointer(c), f.Offset); p := reflect.NewAt(f.Type, p).Interface().(type) {
		case *C.int64_t:
			*p = C.int64_t(integer(value))
		case *C.double:
			if x, isNumber := value.(json.Number); !isNumber {
				*p = C.double(math.NaN())
			} else if x, err := x.Float64(); err == nil {
				*p = C.double(x)
			}
		case *C.tensorfs_string:
			if s, isString := value.(string); isString {
				*p = a.string(s)
			}
		case **C.int64_t:
			list, isList := value.([]any)
			if !ok || !isList {
				continue
			}
			out := array[C.int64_t](a, len(list))
			for i, v := range list {
				out[i] = C.int64_t(integer(v))
			}
			*p = unsafe.SliceData(out)
			*(*C.size_t)(unsafe.Add(unsafe.Pointer(c), t.Field(i+1).Offset)) = C.size_t(len(out))
		}
	}
	return c, nil
}

// integer returns a value of config.json as an integer; -1 if it is not one.
func integer(v any) int64 {
	switch v := v.(type) {
	case bool:
		return int64(truth(v))
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	}
	return -1
}
