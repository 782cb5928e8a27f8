package main

// #include "shim.h"
import "C"

import "unsafe"

// valueOf returns what get gives for a key of a loader's metadata.
func valueOf[T any](p *C.tensorfs_loader, key C.tensorfs_string, errp **C.tensorfs_error, missing T, get func(l *loader, key string) (T, error)) T {
	return with(p, errp, missing, func(l *loader) (T, error) {
		k, err := goString(key, "key")
		if err != nil {
			return missing, err
		}
		return get(l, k)
	})
}

// valuesOf is valueOf for arrays, in the loader's memory.
func valuesOf[T, U any](p *C.tensorfs_loader, key C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error, kind string,
	get func(l *loader, key string) []T, copied func(*arena, []T) []U) *U {
	list := valueOf(p, key, errp, nil, func(l *loader, k string) ([]U, error) {
		return once(l, kind+"\x00"+k, func(a *arena) ([]U, error) {
			if list := get(l, k); list != nil {
				return copied(a, list), nil
			}
			return nil, nil
		})
	})
	if count != nil {
		*count = C.size_t(len(list))
	}
	return unsafe.SliceData(list)
}

//export tensorfsgo_meta_string
func tensorfsgo_meta_string(p *C.tensorfs_loader, key, missing C.tensorfs_string, errp **C.tensorfs_error) C.tensorfs_string {
	return valueOf(p, key, errp, missing, func(l *loader, k string) (C.tensorfs_string, error) {
		s := l.MetaString(k, "")
		if s == "" && l.MetaString(k, "absent") != "" {
			return missing, nil
		}
		return l.text(s), nil
	})
}

//export tensorfsgo_meta_int
func tensorfsgo_meta_int(p *C.tensorfs_loader, key C.tensorfs_string, missing C.int64_t, errp **C.tensorfs_error) C.int64_t {
	return valueOf(p, key, errp, missing, func(l *loader, k string) (C.int64_t, error) {
		return C.int64_t(l.MetaInt(k, int64(missing))), nil
	})
}

//export tensorfsgo_meta_float
func tensorfsgo_meta_float(p *C.tensorfs_loader, key C.tensorfs_string, missing C.double, errp **C.tensorfs_error) C.double {
	return valueOf(p, key, errp, missing, func(l *loader, k string) (C.double, error) {
		return C.double(l.MetaFloat(k, float64(missing))), nil
	})
}

//export tensorfsgo_meta_bool
func tensorfsgo_meta_bool(p *C.tensorfs_loader, key C.tensorfs_string, missing C.int, errp **C.tensorfs_error) C.int {
	return valueOf(p, key, errp, missing, func(l *loader, k string) (C.int, error) {
		return truth(l.MetaBool(k, missing != 0)), nil
	})
}

//export tensorfsgo_meta_strings
func tensorfsgo_meta_strings(p *C.tensorfs_loader, key C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error) *C.tensorfs_string {
	return valuesOf(p, key, count, errp, "strings", func(l *loader, k string) []string { return l.MetaStrings(k) }, (*arena).strings)
}

//export tensorfsgo_meta_ints
func tensorfsgo_meta_ints(p *C.tensorfs_loader, key C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error) *C.int64_t {
	return valuesOf(p, key, count, errp, "ints", func(l *loader, k string) []int64 { return l.MetaInts(k) }, copied[int64, C.int64_t])
}

//export tensorfsgo_meta_floats
func tensorfsgo_meta_floats(p *C.tensorfs_loader, key C.tensorfs_string, count *C.size_t, errp **C.tensorfs_error) *C.double {
	return valuesOf(p, key, count, errp, "floats", func(l *loader, k string) []float64 { return l.MetaFloats(k) }, copied[float64, C.double])
}
