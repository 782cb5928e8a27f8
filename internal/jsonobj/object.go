package jsonobj

import (
	"hash/maphash"
	"iter"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Object is a JSON object, for one goroutine. The zero value has no keys.
type Object struct{ table *table }

// table knows where in an object's text its members are. It has a few bytes for
// each, which is why it is not a map: a hostile text of some megabytes has a
// million, and a map of them takes ten times its text.
type table struct {
	text    string
	members []member         // with unique keys, in the order of the text
	slots   []int32          // hash of a key to 1 + its index in members, open addressing; nil if there are few members
	parsed  map[int32]Object // by member: those asked for so far
}

// few is how many members are searched linearly instead of hashed.
const few = 8

var seed = maphash.MakeSeed()

func newObject(text string) Object {
	n := 0
	for range members(text) {
		n++
	}
	if n == 0 {
		return Object{}
	}
	t := &table{text: text, members: make([]member, 0, n)}
	if n > few {
		size := 1
		for size < 2*n {
			size *= 2
		}
		t.slots = make([]int32, size)
	}
	for e := range members(text) {
		i, slot := t.slotOf(e.keyOf(text))
		if i >= 0 {
			t.members[i].value, t.members[i].valueEnd = e.value, e.valueEnd
			continue
		}
		t.members = append(t.members, e)
		if t.slots != nil {
			t.slots[slot] = int32(len(t.members))
		}
	}
	return Object{t}
}

// keyOf returns the key of a member of that text.
func (m member) keyOf(text string) string { return unquote(text[m.key:m.keyEnd]) }

// hasKey reports whether a member of that text has that key. An escape is up to
// six times as long as the character it encodes, so most keys need no decoding.
func (m member) hasKey(text, key string) bool {
	n := int(m.keyEnd-m.key) - len(`""`)
	return n >= len(key) && n <= 6*len(key) && m.keyOf(text) == key
}

// slotOf returns which of members has a key, or -1 and the slot that is free for it.
func (t *table) slotOf(key string) (i int32, slot int) {
	if t.slots == nil {
		for i, e := range t.members {
			if e.hasKey(t.text, key) {
				return int32(i), 0
			}
		}
		return -1, 0
	}
	mask := len(t.slots) - 1
	for slot = int(maphash.String(seed, key)) & mask; t.slots[slot] != 0; slot = (slot + 1) & mask {
		i = t.slots[slot] - 1
		if t.members[i].hasKey(t.text, key) {
			return i, slot
		}
	}
	return -1, slot
}

// value returns the value of a member.
func (t *table) value(i int32) Raw { return Raw{t.text[t.members[i].value:t.members[i].valueEnd]} }

// Len returns the number of keys.
func (o Object) Len() int {
	if o.table == nil {
		return 0
	}
	return len(o.table.members)
}

// All returns keys and values in the order of the text.
func (o Object) All() iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		if o.table == nil {
			return
		}
		for i, e := range o.table.members {
			if !yield(e.keyOf(o.table.text), o.table.value(int32(i))) {
				return
			}
		}
	}
}

// Raw returns the value under a key.
func (o Object) Raw(key string) Raw {
	if o.table == nil {
		return Raw{}
	}
	i, _ := o.table.slotOf(key)
	if i < 0 {
		return Raw{}
	}
	return o.table.value(i)
}

// Has reports whether there is a value under a key that is not null.
func (o Object) Has(key string) bool {
	k := o.Raw(key).Kind()
	return k != 0 && k != 'n'
}

// Value returns the value under a key, decoded as [Object.Lookup] does; nil
// without one and for null.
func (o Object) Value(key string) any {
	switch v := o.Raw(key); v.Kind() {
	case 0, 'n':
		return nil
	case '[':
		return newArray(v.text, decoded)
	default:
		return decoded(v)
	}
}

// Object returns the object under a key; an object without keys if there is no such
// object.
func (o Object) Object(key string) Object {
	if o.table == nil {
		return Object{}
	}
	i, _ := o.table.slotOf(key)
	if i < 0 {
		return Object{}
	}
	sub, ok := o.table.parsed[i]
	if !ok {
		sub = o.table.value(i).Object()
		if o.table.parsed == nil {
			o.table.parsed = make(map[int32]Object)
		}
		o.table.parsed[i] = sub
	}
	return sub
}

// Inner returns the first of some objects inside that has members, by paths with dots,
// and its path; "" and an empty object without one.
func (o Object) Inner(paths []string) (string, Object) {
	for _, path := range paths {
		inner := o
		for name := range strings.SplitSeq(path, ".") {
			inner = inner.Object(name)
		}
		if inner.Len() > 0 {
			return path, inner
		}
	}
	return "", Object{}
}

// Lookup returns a value by its path with dots. Numbers are json.Number, arrays
// [tensorfs.Array], and objects, and arrays inside of arrays, their compact text;
// null counts as absent.
func (o Object) Lookup(path string) (any, bool) {
	key, rest, nested := strings.Cut(path, ".")
	if nested {
		return o.Object(key).Lookup(rest)
	}
	v := o.Value(key)
	return v, v != nil
}

// Meta appends the object's members as metadata, their keys after prefix:
// scalars as what they are, arrays as [tensorfs.Array], objects as text.
func (o Object) Meta(dst []tensorfs.Meta, prefix string) []tensorfs.Meta {
	for k, v := range o.All() {
		var value any
		if v.Kind() == '[' {
			value = newArray(v.text, scalar)
		} else {
			value = scalar(v)
		}
		dst = append(dst, tensorfs.Meta{Key: prefix + k, Value: value})
	}
	return dst
}
