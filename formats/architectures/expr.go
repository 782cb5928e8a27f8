package architectures

import (
	"fmt"
	"strconv"
	"strings"
)

// Expr is an expression over facts of a model: sizes, conditions, values of keys.
//
//	a if b else c        b decides
//	a and b   a or b     b counts if a does, if a does not
//	a | b                the first that is there
//	a < b   <= > >= == !=
//	a + b   -   *   /    / is of integers where both are integers, and then has to be exact
//	!a  -a  (a)          ! of what is not there is true
//	name                 a fact
//	name word word       the fact is one of the words
//	12  0.5
//
// A value is an int64, a float64, a bool or a string, and nil for what is not there. An
// operation on nil, or on what it is not for, is nil; a condition holds for true and for
// numbers other than 0 and for texts that are not empty.
type Expr struct {
	text  string
	names []string // of facts
	eval  func(facts Facts) any
}

// Facts gives facts of a model by name: int64, float64, bool, string, or nil for one that
// the model does not have.
type Facts func(name string) any

// String is the text of the expression, "" for nil.
func (e *Expr) String() string {
	if e == nil {
		return ""
	}
	return e.text
}

// Eval returns the value of the expression.
func (e *Expr) Eval(facts Facts) any { return e.eval(facts) }

// Holds reports whether a condition holds; nil always does.
func (e *Expr) Holds(facts Facts) bool { return e == nil || isTrue(e.eval(facts)) }

func isTrue(v any) bool {
	switch v := v.(type) {
	case int64:
		return v != 0
	case float64:
		return v != 0
	case bool:
		return v
	case string:
		return v != ""
	}
	return false
}

// maxDepth bounds how deep parentheses and signs may be.
const maxDepth = 50

// ParseExpr reads an expression.
func ParseExpr(text string) (*Expr, error) {
	p := &exprParser{}
	if err := p.split(text); err != nil {
		return nil, err
	}
	eval := p.choice(0)
	if p.err == nil && p.at < len(p.tokens) {
		p.fail("%q is too much", p.tokens[p.at])
	}
	if p.err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, p.err)
	}
	return &Expr{text, p.names, eval}, nil
}

type value = func(facts Facts) any

type exprParser struct {
	tokens []string
	names  []string // of facts
	at     int
	err    error
}

func (p *exprParser) fail(format string, args ...any) value {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return func(Facts) any { return nil }
}

// split cuts a text into names, numbers and signs.
func (p *exprParser) split(text string) error {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		n := len(nameOf(text))
		switch {
		case n > 0:
		case len(text) > 1 && strings.Contains("<= >= == !=", text[:2]) && text[1] == '=':
			n = 2
		case strings.IndexByte("+-*/()|<>!", text[0]) >= 0:
			n = 1
		default:
			return fmt.Errorf("%q is not a sign of expressions", text[0])
		}
		p.tokens, text = append(p.tokens, text[:n]), text[n:]
	}
	return nil
}

// next takes a token if it is one of these, and returns it or "".
func (p *exprParser) next(of ...string) string {
	if p.at < len(p.tokens) {
		for _, o := range of {
			if p.tokens[p.at] == o {
				p.at++
				return o
			}
		}
	}
	return ""
}

func (p *exprParser) choice(depth int) value {
	if depth > maxDepth {
		return p.fail("it is too deep")
	}
	a := p.binary(0, depth)
	if p.next("if") == "" {
		return a
	}
	when := p.binary(0, depth)
	b := func(Facts) any { return nil }
	if p.next("else") != "" {
		b = p.choice(depth + 1)
	}
	return func(facts Facts) any {
		if isTrue(when(facts)) {
			return a(facts)
		}
		return b(facts)
	}
}

// operators are the signs between two values, those that bind least first.
var operators = [][]string{{"or"}, {"and"}, {"<", "<=", ">", ">=", "==", "!="}, {"|"}, {"+", "-"}, {"*", "/"}}

func (p *exprParser) binary(level, depth int) value {
	if level == len(operators) {
		return p.unary(depth)
	}
	a := p.binary(level+1, depth)
	for {
		sign := p.next(operators[level]...)
		if sign == "" {
			return a
		}
		x, y := a, p.binary(level+1, depth)
		a = func(facts Facts) any { return operate(sign, x, y, facts) }
	}
}

func (p *exprParser) unary(depth int) value {
	if depth > maxDepth {
		return p.fail("it is too deep")
	}
	switch p.next("!", "-", "(") {
	case "!":
		a := p.unary(depth + 1)
		return func(facts Facts) any { return !isTrue(a(facts)) }
	case "-":
		a := p.unary(depth + 1)
		return func(facts Facts) any { return operate("-", func(Facts) any { return int64(0) }, a, facts) }
	case "(":
		a := p.choice(depth + 1)
		if p.next(")") == "" {
			return p.fail("a parenthesis has no end")
		}
		return a
	}
	if p.at == len(p.tokens) || !isNameByte(p.tokens[p.at][0]) || isOperator(p.tokens[p.at]) {
		return p.fail("a value is missing")
	}
	name := p.tokens[p.at]
	p.at++
	if n, err := strconv.ParseInt(name, 10, 64); err == nil {
		return func(Facts) any { return n }
	}
	if n, err := strconv.ParseFloat(name, 64); err == nil && '0' <= name[0] && name[0] <= '9' {
		return func(Facts) any { return n }
	}
	p.names = append(p.names, name)
	var words []string
	for p.at < len(p.tokens) && isNameByte(p.tokens[p.at][0]) && !isOperator(p.tokens[p.at]) {
		words = append(words, p.tokens[p.at])
		p.at++
	}
	if words == nil {
		return func(facts Facts) any { return facts(name) }
	}
	return func(facts Facts) any {
		v, ok := facts(name).(string)
		for _, w := range words {
			if ok && v == w {
				return true
			}
		}
		return false
	}
}

func isOperator(token string) bool {
	return token == "if" || token == "else" || token == "and" || token == "or"
}

// operate returns the value of an operation.
func operate(sign string, x, y value, facts Facts) any {
	a := x(facts)
	switch sign {
	case "|":
		if a != nil {
			return a
		}
		return y(facts)
	case "and":
		return isTrue(a) && isTrue(y(facts))
	case "or":
		return isTrue(a) || isTrue(y(facts))
	}
	b := y(facts)
	if i, ok := a.(int64); ok {
		if j, ok := b.(int64); ok {
			return integers(sign, i, j)
		}
	}
	f, okF := toFloat(a)
	g, okG := toFloat(b)
	switch {
	case sign == "==" && (!okF || !okG):
		return a != nil && a == b
	case sign == "!=" && (!okF || !okG):
		return a != nil && b != nil && a != b
	case !okF || !okG:
		return nil
	}
	switch sign {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "/":
		return f / g
	}
	return compared(sign, f, g)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// maxInteger bounds what is calculated with, so that nothing overflows.
const maxInteger = 1 << 31

func integers(sign string, i, j int64) any {
	if max(i, j) > maxInteger || min(i, j) < -maxInteger {
		return nil
	}
	switch sign {
	case "+":
		return i + j
	case "-":
		return i - j
	case "*":
		return i * j
	case "/":
		if j == 0 || i%j != 0 {
			return nil
		}
		return i / j
	}
	return compared(sign, i, j)
}

func compared[T int64 | float64](sign string, a, b T) bool {
	switch sign {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "==":
		return a == b
	}
	return a != b
}
