package rescue

import (
	"errors"
	"strings"
	"testing"
)

// TestTo: a panic becomes one line with its place; an error without a panic stays.
func TestTo(t *testing.T) {
	var none *struct{ n int }
	for what, fn := range map[string]func() error{
		"nil pointer": func() error { none.n++; return nil },
		"a text":      func() error { panic("two\nlines") },
		"an index":    func() error { var list []int; list[len(what())]++; return nil },
	} {
		err := func() (err error) {
			defer To(&err, "some/model")
			return fn()
		}()
		if !errors.Is(err, ErrInternal) || !strings.HasPrefix(err.Error(), "some/model: internal error at rescue_test.go:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	plain := errors.New("plain")
	err := func() (err error) {
		defer To(&err, "some/model")
		return plain
	}()
	if err != plain {
		t.Errorf("%v", err)
	}
}

func what() string { return "what" }
