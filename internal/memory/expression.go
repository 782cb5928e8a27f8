package memory

import (
	"fmt"
	"strconv"
	"strings"
)

// expression is a number that follows from a model's dimensions: names, numbers, + * max() and
// parentheses, such as 3*E+max(3*F,M). It is parsed once.
type expression struct {
	op    byte // 'n' number, 'v' name, '+', '*', 'm' the larger
	n     int64
	name  string
	parts []*expression
}

// expressionOf parses a text of one of the tables. It panics on an error, because the
// tables are parts of this program.
func expressionOf(text string) *expression {
	p := &parser{text: text}
	e := p.sum()
	if p.at < len(text) {
		panic(fmt.Sprintf("expression %q: what is at byte %d?", text, p.at))
	}
	return e
}

type parser struct {
	text string
	at   int
}

func (p *parser) skip(b byte) bool {
	ok := p.at < len(p.text) && p.text[p.at] == b
	if ok {
		p.at++
	}
	return ok
}

func (p *parser) list(op, between byte, part func() *expression) *expression {
	e := &expression{op: op, parts: []*expression{part()}}
	for p.skip(between) {
		e.parts = append(e.parts, part())
	}
	if len(e.parts) == 1 {
		return e.parts[0]
	}
	return e
}

func (p *parser) sum() *expression     { return p.list('+', '+', p.product) }
func (p *parser) product() *expression { return p.list('*', '*', p.factor) }

func (p *parser) factor() *expression {
	if p.skip('(') {
		e := p.sum()
		if !p.skip(')') {
			panic(fmt.Sprintf("expression %q: ) is missing", p.text))
		}
		return e
	}
	word := p.text[p.at:]
	if end := strings.IndexAny(word, "+*(),"); end >= 0 {
		word = word[:end]
	}
	p.at += len(word)
	if word == "max" && p.skip('(') {
		e := p.list('m', ',', p.sum)
		if !p.skip(')') {
			panic(fmt.Sprintf("expression %q: ) is missing", p.text))
		}
		return e
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return &expression{op: 'n', n: n}
	}
	if word == "" {
		panic(fmt.Sprintf("expression %q: nothing at byte %d", p.text, p.at))
	}
	return &expression{op: 'v', name: word}
}

// value computes it. A name without a value is a mistake in a table.
func (e *expression) value(c *checked, of map[string]int64) int64 {
	switch e.op {
	case 'n':
		return e.n
	case 'v':
		n, ok := of[e.name]
		if !ok {
			panic("no dimension is called " + e.name)
		}
		return n
	}
	all := make([]int64, len(e.parts))
	for i, part := range e.parts {
		all[i] = part.value(c, of)
	}
	switch e.op {
	case '+':
		return c.add(all...)
	case '*':
		return c.mul(all...)
	}
	most := all[0]
	for _, n := range all {
		most = max(most, n)
	}
	return most
}
