package parallel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/internal/rescue"
)

func TestEach(t *testing.T) {
	failed, ended := errors.New("it failed"), errors.New("it was ended")
	tests := []struct {
		name    string
		n, fail int // the call that fails, -1 for none
		ended   error
		want    error
		calls   int // -1: it depends
	}{
		{"none", 0, -1, nil, nil, 0},
		{"fewer than workers", 2, -1, nil, nil, 2},
		{"many", 100, -1, nil, nil, 100},
		{"one fails", 100, 50, nil, failed, -1},
		{"ended before", 100, -1, ended, ended, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if test.ended != nil {
				stop(test.ended)
			}
			var mu sync.Mutex
			calls, at, most := map[int]int{}, 0, 0
			err := Each(ctx, 4, test.n, func(ctx context.Context, i int) error {
				mu.Lock()
				calls[i]++
				at++
				most = max(most, at)
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					at--
				}()
				if i == test.fail {
					return failed
				}
				if i > test.fail && test.fail >= 0 {
					<-ctx.Done() // the failure ends all others
				}
				return nil
			})
			if err != test.want {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if test.calls >= 0 && len(calls) != test.calls || most > 4 || at != 0 {
				t.Errorf("%d calls, up to %d at the same time, %d still running", len(calls), most, at)
			}
			for i, n := range calls {
				if n != 1 {
					t.Errorf("%d was called %d times", i, n)
				}
			}
		})
	}
}

// TestEachPanic: a panic in one call ends all calls and becomes an error.
func TestEachPanic(t *testing.T) {
	err := Each(t.Context(), 4, 100, func(ctx context.Context, i int) error {
		if i == 3 {
			panic("planted")
		}
		if i > 3 {
			<-ctx.Done()
		}
		return nil
	})
	if !errors.Is(err, rescue.ErrInternal) || !strings.HasPrefix(err.Error(), "internal error at parallel_test.go:") {
		t.Errorf("%v", err)
	}
}
