package architectures

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Expr is an expression over facts of a model: sizes, conditions, values of keys and of
// fields of config.json.
//
//	a if b else c        b decides
//	a and b   a or b     b counts if a does, if a does not
//	a | b                the first that is there
//	a < b   <= > >= == !=
//	a + b   -   *   /  %   / is of integers where both are integers, and then has to be exact
//	!a  -a  (a)          ! of what is not there is true
//	name                 a fact
//	name word word       the fact is one of the words
//	name(a, b)           a function
//	12  0.5  "text"  true  false  null  [a, b]
//
// A value is an int64, a float64, a bool, a string, a [Null] or a []any, and nil if it is
// missing. An operation is nil if a value is nil or of a kind that it is not defined on, or if an
// int64 does not hold the result. A condition holds for true, for numbers other than 0 and for texts that are not empty.
type Expr struct {
	Literal any     // of an expression that is only a literal: int64, float64, bool, string, []any or Null
	Name    string  // of an expression that is only a fact or a function
	Args    []*Expr // of the function

	text  string
	names []string // of facts
	calls []string // of functions
	eval  func(env *Env) any
}

// Null is a null that is written.
type Null struct{}

// Env is what an expression is evaluated in.
type Env struct {
	Facts  Facts
	Source Source                              // nil: there are only facts
	Call   func(name string, args []*Expr) any // nil: there are only the functions of all expressions
	List   func(e *Expr) any                   // returns the value of an argument that may be a list; nil: the usual value

	layer int64 // 1 + the layer for which the expression is evaluated, 0 for none
}

// Facts returns facts of a model by name: int64, float64, bool, string, or nil if the model
// does not have the fact.
type Facts func(name string) any

// String is the text of the expression, "" for nil.
func (e *Expr) String() string {
	if e == nil {
		return ""
	}
	return e.text
}

// Constant returns the value of an expression that is a literal, nil if it is not a
// literal or e is nil.
func (e *Expr) Constant() any {
	if e == nil {
		return nil
	}
	return e.Literal
}

// Eval returns the value of an expression that uses only facts.
func (e *Expr) Eval(facts Facts) any { return e.eval(&Env{Facts: facts}) }

// Uses returns the names of the facts and of the functions in the expression.
func (e *Expr) Uses() (facts, functions []string) { return e.names, e.calls }

// In returns the value of the expression.
func (e *Expr) In(env *Env) any { return e.eval(env) }

// Holds reports whether a condition holds; nil always does.
func (e *Expr) Holds(facts Facts) bool { return e.HoldsIn(&Env{Facts: facts}) }

// HoldsIn reports whether a condition with functions holds; nil always does.
func (e *Expr) HoldsIn(env *Env) bool { return e == nil || isTrue(e.eval(env)) }

func isTrue(v any) bool {
	switch v := v.(type) {
	case int64:
		return v != 0
	case float64:
		return v != 0
	case float32:
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
	e := p.choice(0)
	if p.err == nil && p.at < len(p.tokens) {
		p.fail("%q is too much", p.tokens[p.at])
	}
	if p.err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, p.err)
	}
	e.text, e.names, e.calls = text, p.names, p.calls
	return e, nil
}

type exprParser struct {
	tokens []string
	names  []string // of facts
	calls  []string // of functions
	at     int
	err    error
}

func (p *exprParser) fail(format string, args ...any) *Expr {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return &Expr{}
}

var (
	numberToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`) })
	textToken   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^"[^"\\]*"`) })
)

// split cuts a text into names, numbers, texts and signs.
func (p *exprParser) split(text string) error {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		n := 0
		switch c := text[0]; {
		case '0' <= c && c <= '9':
			n = len(numberToken().FindString(text))
		case c == '"':
			n = len(textToken().FindString(text))
		}
		switch {
		case n > 0:
		case isNameByte(text[0]):
			n = len(nameOf(text))
		case len(text) > 1 && strings.Contains("<= >= == !=", text[:2]) && text[1] == '=':
			n = 2
		case strings.IndexByte("+-*/%()[],|<>!", text[0]) >= 0:
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
	if p.at < len(p.tokens) && slices.Contains(of, p.tokens[p.at]) {
		p.at++
		return p.tokens[p.at-1]
	}
	return ""
}

func (p *exprParser) choice(depth int) *Expr {
	if depth > maxDepth {
		return p.fail("it is too deep")
	}
	a := p.binary(0, depth)
	if p.next("if") == "" {
		return a
	}
	when := p.binary(0, depth)
	b := &Expr{eval: func(*Env) any { return nil }}
	if p.next("else") != "" {
		b = p.choice(depth + 1)
	}
	return &Expr{eval: func(env *Env) any {
		if isTrue(when.eval(env)) {
			return a.eval(env)
		}
		return b.eval(env)
	}}
}

// operators are the binary operators, in order of increasing precedence.
var operators = [][]string{{"or"}, {"and"}, {"<", "<=", ">", ">=", "==", "!="}, {"|"}, {"+", "-"}, {"*", "/", "%"}}

func (p *exprParser) binary(level, depth int) *Expr {
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
		a = &Expr{eval: func(env *Env) any { return operate(sign, x, y, env) }}
	}
}

func (p *exprParser) unary(depth int) *Expr {
	if depth > maxDepth {
		return p.fail("it is too deep")
	}
	switch p.next("!", "-", "(", "[") {
	case "!":
		a := p.unary(depth + 1)
		return &Expr{eval: func(env *Env) any { return !isTrue(a.eval(env)) }}
	case "-":
		a := p.unary(depth + 1)
		return &Expr{eval: func(env *Env) any { return operate("-", literalExpr(int64(0)), a, env) }}
	case "(":
		a := p.choice(depth + 1)
		if p.next(")") == "" {
			return p.fail("a parenthesis has no end")
		}
		return a
	case "[":
		list := p.list("]", depth)
		if len(list) == 0 {
			return literalExpr([]any{})
		}
		return &Expr{eval: func(env *Env) any {
			var all []any
			for _, e := range list {
				all = append(all, e.eval(env))
			}
			return all
		}}
	}
	if p.at == len(p.tokens) || !isNameByte(p.tokens[p.at][0]) && p.tokens[p.at][0] != '"' || isOperator(p.tokens[p.at]) {
		return p.fail("a value is missing")
	}
	name := p.tokens[p.at]
	p.at++
	if l := literal(name); l != nil {
		return literalExpr(l)
	}
	if p.next("(") != "" {
		args := p.list(")", depth)
		p.calls = append(p.calls, name)
		return &Expr{Name: name, Args: args, eval: func(env *Env) any {
			if f := functions[name]; f != nil {
				return f(env, args)
			}
			if env.Call == nil {
				return nil
			}
			return env.Call(name, args)
		}}
	}
	p.names = append(p.names, name)
	var words []string
	for p.at < len(p.tokens) && isNameByte(p.tokens[p.at][0]) && !isOperator(p.tokens[p.at]) {
		words = append(words, p.tokens[p.at])
		p.at++
	}
	if words == nil {
		return &Expr{Name: name, eval: func(env *Env) any { return env.Fact(name) }}
	}
	return &Expr{eval: func(env *Env) any {
		v, ok := env.Fact(name).(string)
		return ok && slices.Contains(words, v)
	}}
}

// list reads values with commas between them, up to a sign.
func (p *exprParser) list(end string, depth int) (list []*Expr) {
	for p.next(end) == "" {
		start := p.at
		if list = append(list, p.choice(depth+1)); p.err != nil {
			return nil
		}
		list[len(list)-1].text = strings.Join(p.tokens[start:p.at], " ")
		if p.next(",") == "" && (p.at == len(p.tokens) || p.tokens[p.at] != end) {
			p.fail("a list has no end")
			return nil
		}
	}
	return list
}

func literalExpr(v any) *Expr { return &Expr{Literal: v, eval: func(*Env) any { return v }} }

func isOperator(token string) bool {
	return token == "if" || token == "else" || token == "and" || token == "or"
}

// operate returns the value of an operation.
func operate(sign string, x, y *Expr, env *Env) any {
	a := x.eval(env)
	switch sign {
	case "|":
		if a != nil {
			return a
		}
		return y.eval(env)
	case "and":
		return isTrue(a) && isTrue(y.eval(env))
	case "or":
		return isTrue(a) || isTrue(y.eval(env))
	}
	b := y.eval(env)
	if i, ok := a.(int64); ok {
		if j, ok := b.(int64); ok {
			return integers(sign, i, j)
		}
	}
	f, okF := toFloat(a)
	g, okG := toFloat(b)
	switch {
	case sign == "==" && (!okF || !okG):
		return a != nil && reflect.DeepEqual(a, b)
	case sign == "!=" && (!okF || !okG):
		return a != nil && b != nil && !reflect.DeepEqual(a, b)
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
		if g == 0 {
			return nil
		}
		return f / g
	case "%":
		return nil
	}
	return compared(sign, f, g)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case float32: // as its shortest decimal, which is what a config.json had
		x, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return x, err == nil
	}
	return 0, false
}

func integers(sign string, i, j int64) any {
	switch sign {
	case "+":
		if sum := i + j; (sum > i) == (j > 0) {
			return sum
		}
		return nil
	case "-":
		if rest := i - j; (rest < i) == (j > 0) {
			return rest
		}
		return nil
	case "*":
		if product := i * j; i == 0 || product/i == j && (i != -1 || j != math.MinInt64) {
			return product
		}
		return nil
	case "/":
		if j == 0 || j == -1 && i == math.MinInt64 || i%j != 0 {
			return nil
		}
		return i / j
	case "%":
		if j <= 0 {
			return nil
		}
		return i % j
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
