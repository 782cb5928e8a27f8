package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/sizes"
)

// ByteSize is a flag like 512M or 8GiB.
type ByteSize int64

var _ pflag.Value = (*ByteSize)(nil)

// String returns the number of bytes.
func (b *ByteSize) String() string { return strconv.FormatInt(int64(*b), 10) }

// Type names the value in help texts.
func (b *ByteSize) Type() string { return "SIZE" }

// Set parses a number with an optional unit of powers of 1024.
func (b *ByteSize) Set(s string) error {
	n, ok := sizes.Parse(s)
	if !ok {
		return fmt.Errorf("want a size like 512M or 8G")
	}
	*b = ByteSize(n)
	return nil
}

// OptionalSize is a size, or none.
type OptionalSize struct {
	ByteSize
	Given bool
}

// String returns what was given.
func (s *OptionalSize) String() string {
	if !s.Given {
		return ""
	}
	return s.ByteSize.String()
}

// Set parses a size.
func (s *OptionalSize) Set(text string) error {
	s.Given = true
	return s.ByteSize.Set(text)
}

var _ pflag.Value = (*OptionalSize)(nil)

// Tokens is a flag like 8192, 32k or 128K.
type Tokens int

var _ pflag.Value = (*Tokens)(nil)

// String returns the number.
func (t *Tokens) String() string { return strconv.Itoa(int(*t)) }

// Type names the value in help texts.
func (t *Tokens) Type() string { return "TOKENS" }

// Set reads a number of tokens such as 8192, 4,096, 32k or 1m, where k is 1024 and m its
// square; max is 0, the context that the model was trained with.
func (t *Tokens) Set(s string) error {
	if strings.EqualFold(s, "max") {
		*t = 0
		return nil
	}
	digits, factor := s, 1
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kmKM", s[n-1]); i >= 0 {
			digits, factor = s[:n-1], 1<<(10*(i%2+1))
		}
	}
	if groups := strings.Split(digits, ","); len(groups) > 1 {
		if !slices.ContainsFunc(groups[1:], func(g string) bool { return len(g) != 3 }) && len(groups[0]) <= 3 {
			digits = strings.Join(groups, "")
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n > (1<<31-1)/uint64(factor) {
		return errors.New("want a number of tokens, such as 8192 or 32k; 0 is as many as the model was trained with")
	}
	*t = Tokens(int(n) * factor)
	return nil
}

// AddFlag adds a flag for a value of any type that flags have.
func AddFlag(set *pflag.FlagSet, to any, name, short, help string) {
	switch to := to.(type) {
	case *bool:
		set.BoolVarP(to, name, short, *to, help)
	case *string:
		set.StringVarP(to, name, short, *to, help)
	case *int:
		set.IntVarP(to, name, short, *to, help)
	case *float64:
		set.Float64VarP(to, name, short, *to, help)
	case *time.Duration:
		set.DurationVarP(to, name, short, *to, help)
	case *[]string:
		set.StringArrayVarP(to, name, short, *to, help)
	case pflag.Value:
		set.VarP(to, name, short, help)
	default:
		panic(fmt.Sprintf("--%s: flags have no values of type %T", name, to))
	}
}
