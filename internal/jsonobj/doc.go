// Package jsonobj reads the JSON objects that describe models: config.json and
// what resembles it.
//
// [Parse] checks a text once and copies nothing out of it. An [Object] locates
// its keys when it is made, and a [Raw] value is decoded on demand. Both cost
// time and memory in proportion to their own text, whatever it contains: depth,
// number of keys, length of strings. [MaxKeys] bounds the keys that become a file
// each.
//
// Like Python, which writes these files, the package takes the last value of a
// repeated key and knows NaN and Infinity; those become strings. Any other text
// that is not JSON is an error.
package jsonobj
