package adapter

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// Limits of rank_pattern and alpha_pattern. Names of modules are looked up, so that there may be
// any number of them: all names of one form count as one pattern.
const (
	maxPatterns    = 1024     // expressions and forms
	maxExpressions = 64 << 10 // bytes of all expressions
	maxKey         = 4 << 10  // bytes of a key
	maxRepeat      = 100      // of a counted repetition
	maxProgram     = 1 << 16  // instructions and ranges of characters of all expressions

	// A module's name may take so many steps for each of its bytes, and all together some more.
	stepsOfByte = 512
	freeSteps   = 1 << 22
)

// patterns are rank_pattern or alpha_pattern. A key matches a whole name of a module, or what
// follows any dot of it; the first key of the file that matches gives the value.
type patterns struct {
	values      []float64 // by the number of the key
	forms       []*form
	byForm      map[string]*form
	expressions []expression
	bytes, size int // of all expressions, and of their programs
	machine     machine
}

// form is the length of names and the places of dots in them. Each dot matches any
// character. Keys of one form are looked up together.
type form struct {
	length   int
	anchored bool // the name begins with ^: nothing may stand before it
	dots     []int
	keys     map[string]int // numbers of keys
}

// expression is a key that is not just a name.
type expression struct {
	key  int
	prog *syntax.Prog
	any  bool // it begins with .*, so that what may stand before it changes nothing
}

// add takes another key, and reports why it cannot.
func (p *patterns) add(key string, value float64) (problem string) {
	number := len(p.values)
	p.values = append(p.values, value)
	if len(key) > maxKey {
		return fmt.Sprintf("the key %s has more than %d bytes", tensorfs.Quote(key), maxKey)
	}
	tree, err := syntax.Parse(key, syntax.Perl)
	if err != nil {
		return notRead(key, err)
	}
	if name, whole, ok := plain(tree); ok {
		return p.addName(name, whole, number)
	}
	if p.bytes += len(key); p.bytes > maxExpressions {
		return fmt.Sprintf("its expressions have more than %d bytes", maxExpressions)
	}
	size, most := sizeOf(tree)
	if most > maxRepeat {
		return fmt.Sprintf("%s repeats something more than %d times", tensorfs.Quote(key), maxRepeat)
	}
	if p.size += size; p.size > maxProgram {
		return fmt.Sprintf("with %s its expressions become too large", tensorfs.Quote(key))
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return notRead(key, err)
	}
	p.expressions = append(p.expressions, expression{number, prog, beginsWithAny(tree)})
	return p.checkCount()
}

func notRead(key string, err error) string {
	why := err.Error()
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		why = e.Code.String() + ": " + tensorfs.Printable(e.Expr)
	}
	return fmt.Sprintf("%s is not a pattern that is read: %s", tensorfs.Quote(key), why)
}

func (p *patterns) checkCount() (problem string) {
	if len(p.expressions)+len(p.forms) > maxPatterns {
		return fmt.Sprintf("it has more than %d expressions, or names of as many lengths and places of dots", maxPatterns)
	}
	return ""
}

// anyCharacter marks a dot that matches any character.
const anyCharacter = -1

// plain returns the characters of an expression that is a name, and whether nothing may
// stand before it.
func plain(tree *syntax.Regexp) (name []rune, whole, ok bool) {
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	for i, x := range parts {
		switch {
		case x.Op == syntax.OpLiteral && x.Flags&syntax.FoldCase == 0:
			name = append(name, x.Rune...)
		case x.Op == syntax.OpAnyCharNotNL:
			name = append(name, anyCharacter)
		case x.Op == syntax.OpBeginText && i == 0:
			whole = true
		case x.Op == syntax.OpEndText && i == len(parts)-1, x.Op == syntax.OpEmptyMatch:
		default:
			return nil, false, false
		}
	}
	return name, whole, true
}

// addName takes a name as a key, unless a key before it has the same.
func (p *patterns) addName(name []rune, whole bool, number int) (problem string) {
	shape := make([]byte, 0, len(name)+1)
	shape = append(shape, map[bool]byte{true: '^', false: ' '}[whole])
	f := &form{length: len(name), anchored: whole}
	for i, c := range name {
		if c == anyCharacter {
			f.dots = append(f.dots, i)
			shape = append(shape, '.')
			continue
		}
		shape = append(shape, 'x')
	}
	if have := p.byForm[string(shape)]; have != nil {
		f = have
	} else {
		if p.byForm == nil {
			p.byForm = map[string]*form{}
		}
		f.keys = map[string]int{}
		p.byForm[string(shape)], p.forms = f, append(p.forms, f)
	}
	if text := string(f.text(nil, name)); !has(f.keys, text) {
		f.keys[text] = number
	}
	return p.checkCount()
}

func has(m map[string]int, key string) bool {
	_, ok := m[key]
	return ok
}

// text appends characters, with a dot for each place that matches any.
func (f *form) text(dst []byte, name []rune) []byte {
	dots := f.dots
	for i, c := range name {
		if len(dots) > 0 && dots[0] == i {
			c, dots = '.', dots[1:]
		}
		dst = utf8.AppendRune(dst, c)
	}
	return dst
}

// firstKey returns the number of the first key that a name has, and the steps that this took.
// It gives up after so many steps.
func (p *patterns) firstKey(name string, most int) (key, steps int) {
	key = len(p.values)
	if key == 0 {
		return 0, 0
	}
	characters := []rune(name)
	// What stands before a key is nothing, or ends with a dot and has no line's end.
	before := len(characters)
	if i := slices.Index(characters, '\n'); i >= 0 {
		before = i
	}
	var text []byte
	for _, f := range p.forms {
		steps++
		at := len(characters) - f.length
		if at < 0 || at > 0 && (f.anchored || characters[at-1] != '.' || at > before) {
			continue
		}
		end := characters[at:]
		if slices.ContainsFunc(f.dots, func(i int) bool { return end[i] == '\n' }) {
			continue
		}
		steps += 4 + f.length/8
		text = f.text(text[:0], end)
		if k, ok := f.keys[string(text)]; ok {
			key = min(key, k)
		}
		if steps > most {
			return key, steps
		}
	}
	var starts []int
	for at, c := range name {
		if at == 0 || name[at-1] == '.' {
			starts = append(starts, at)
		}
		if c == '\n' {
			break
		}
	}
	if name == "" || strings.HasSuffix(name, ".") && !strings.Contains(name, "\n") {
		starts = append(starts, len(name))
	}
	for i := range p.expressions {
		e := &p.expressions[i]
		if e.key > key {
			break
		}
		from := starts
		if e.any {
			from = starts[:1]
		}
		m := &p.machine
		m.prog, m.steps, m.most = e.prog, steps, most
		if slices.ContainsFunc(from, func(at int) bool { return m.matches(name, at) }) {
			key = e.key
		}
		if steps = m.steps; steps > most {
			break
		}
	}
	return key, steps
}

// beginsWithAny reports whether an expression begins with .*.
func beginsWithAny(tree *syntax.Regexp) bool {
	if tree.Op == syntax.OpConcat {
		tree = tree.Sub[0]
	}
	return tree.Op == syntax.OpStar && tree.Sub[0].Op == syntax.OpAnyCharNotNL
}

// sizeOf returns how many instructions and ranges of characters an expression has at most, and the largest count
// of a repetition in it.
func sizeOf(tree *syntax.Regexp) (size, repeat int) {
	size = 1 + len(tree.Rune)
	for _, s := range tree.Sub {
		n, most := sizeOf(s)
		size, repeat = size+n, max(repeat, most)
	}
	if tree.Op == syntax.OpRepeat {
		n := max(tree.Min, tree.Max, 1)
		repeat = max(repeat, n)
		size = min(size, maxProgram) * min(n, maxRepeat+1)
	}
	return min(size, maxProgram+1), repeat
}

// machine runs a program over one name after another and counts its steps, which
// [regexp.Regexp] does not.
type machine struct {
	prog        *syntax.Prog
	steps, most int

	now, next []uint32 // instructions that wait for a character
	seen      []int    // by instruction: the round in which it was last reached
	round     int
	stack     []uint32
}

// matches reports whether the program takes all of name from a place on.
func (m *machine) matches(name string, at int) bool {
	if n := len(m.prog.Inst); n > len(m.seen) {
		m.seen = append(m.seen, make([]int, n-len(m.seen))...)
	}
	before := rune(-1)
	if at > 0 {
		before = '.'
	}
	m.now = append(m.now[:0], uint32(m.prog.Start))
	for m.steps <= m.most {
		c, width := rune(-1), 0
		if at < len(name) {
			c, width = utf8.DecodeRuneInString(name[at:])
		}
		matched := m.follow(syntax.EmptyOpContext(before, c))
		if width == 0 {
			return matched
		}
		if len(m.now) == 0 {
			return false
		}
		m.next = m.next[:0]
		for _, pc := range m.now {
			if i := &m.prog.Inst[pc]; i.MatchRune(c) {
				m.next = append(m.next, i.Out)
			}
		}
		m.now, m.next = m.next, m.now
		before, at = c, at+width
	}
	return false
}

// follow replaces instructions by all that are reached from them without a character, and
// reports whether the program's end is among these.
func (m *machine) follow(empty syntax.EmptyOp) (matched bool) {
	m.round++
	m.stack = append(m.stack[:0], m.now...)
	m.now = m.now[:0]
	for len(m.stack) > 0 {
		pc := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		m.steps++
		if m.seen[pc] == m.round {
			continue
		}
		m.seen[pc] = m.round
		switch i := &m.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			m.stack = append(m.stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^empty == 0 {
				m.stack = append(m.stack, i.Out)
			}
		case syntax.InstMatch:
			matched = true
		case syntax.InstFail:
		default:
			m.now = append(m.now, pc)
		}
	}
	return matched
}
