// Package jsonobj reads the JSON objects that describe models: config.json and
// what resembles it.
//
// [Parse] checks a text once and copies nothing out of it. An [Object] finds the
// places of its keys when it is made, a [Raw] value is decoded when somebody
// asks, and both cost time and memory in proportion to their own text, whatever
// is in it: depth, number of keys, length of strings. [MaxKeys] bounds what
// becomes a file for each key.
//
// Like Python, which writes these files, the package takes the last value of a
// repeated key and knows NaN and Infinity; those become strings. Text that is
// otherwise no JSON is an error.
package jsonobj
