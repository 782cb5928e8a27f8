package hfdir

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// quantKeys are what a config.json says about how weights are quantised.
var quantKeys = map[string]bool{"quantization": true, "quantization_config": true}

// torchKeys are the names of the type of numbers: libraries write either.
var torchKeys = map[string]bool{"torch_dtype": true, "dtype": true}

// adapted returns a stored config.json for tensors that are given in another way:
// with their torch_dtype, and without what it says about quantisation or, in mlx/,
// with what holds there. All other fields are as stored, and in their order.
func adapted(stored []byte, f facts, mlx bool) ([]byte, error) {
	o, err := jsonobj.Parse(stored)
	if err != nil {
		return nil, &tensorfs.FormatError{File: "config.json", Offset: -1, Problem: err.Error()}
	}
	list := replaced(o, f.torch, true)
	if f.experts && !mlx {
		list = append(list, jsonMember{"quantization_config", mxfp4Config})
	}
	if mlx && f.quantization != nil {
		q, err := jsonobj.Parse(f.quantization)
		if err != nil {
			return nil, err
		}
		for name, raw := range q.All() {
			list = append(list, jsonMember{name, raw})
		}
	}
	return list.lines(!json.Valid(stored)), nil
}

// lines returns the object with a member on each line, which is how a config.json
// keeps its look. special says that it has numbers which JSON does not have.
func (o jsonObject) lines(special bool) []byte {
	var b bytes.Buffer
	b.WriteString("{")
	for i, m := range o {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n    ")
		b.Write(tensorfs.AppendJSONString(nil, m.name))
		b.WriteString(": ")
		value := string(appendJSON(nil, m.value))
		if special {
			value = unquoted(value)
		}
		b.WriteString(value)
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// unquoted writes numbers as Python does which JSON does not have: jsonobj reads
// them as strings, and the programs that read a config.json want numbers.
func unquoted(value string) string {
	for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
		quoted := strconv.Quote(n)
		parts := strings.Split(value, quoted)
		var b strings.Builder
		for i, part := range parts {
			if i > 0 {
				rest := strings.TrimLeft(part, " \t\r\n")
				if strings.HasSuffix(parts[i-1], `\`) || strings.HasPrefix(rest, ":") { // in a string, or a key
					b.WriteString(quoted)
				} else {
					b.WriteString(n)
				}
			}
			b.WriteString(part)
		}
		value = b.String()
	}
	return value
}

// replaced returns the members of an object, and of the language model in it,
// without what is said about quantisation and with a type of numbers: where one
// was, or at the end if always.
func replaced(o jsonobj.Object, torch string, always bool) jsonObject {
	list := make(jsonObject, 0, o.Len()+1)
	text, _ := o.Inner(architectures.TextConfigs)
	said := false
	for name, raw := range o.All() {
		switch {
		case quantKeys[name], torchKeys[name] && (said || torch == ""):
		case torchKeys[name]:
			list, said = append(list, jsonMember{"torch_dtype", torch}), true
		case name == text && always && affected(raw.Object()):
			list = append(list, jsonMember{name, replaced(raw.Object(), torch, false)})
		default:
			list = append(list, jsonMember{name, raw})
		}
	}
	if always && !said && torch != "" {
		list = append(list, jsonMember{"torch_dtype", torch})
	}
	return list
}

// affected reports whether an object has any of the members that are replaced.
func affected(o jsonobj.Object) bool {
	for name := range o.All() {
		if quantKeys[name] || torchKeys[name] {
			return true
		}
	}
	return false
}
