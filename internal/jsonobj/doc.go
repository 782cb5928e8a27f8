// Package jsonobj reads the JSON objects that describe models: config.json and
// what resembles it.
//
// An [Object] keeps its values as text and decodes what somebody asks for, so
// that a large file costs little. Like Python, which writes these files, it
// takes the last value of a repeated key and knows NaN and Infinity; those
// become strings. Text that is otherwise no JSON is an error.
package jsonobj
