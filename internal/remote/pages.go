package remote

import "errors"

// AtOnce is how many files are asked for at the same time.
const AtOnce = 16

// MaxPages bounds the pages of a list.
const MaxPages = 1000

// ErrEndless marks a list of pages that does not end.
var ErrEndless = errors.New("it does not end")

// Pages asks for the pages of a list, from the one called first on. ask returns what the
// page after this one is called, "" after the last.
func Pages(first string, ask func(page string) (next string, err error)) error {
	for page, n := first, 0; n < MaxPages; n++ {
		next, err := ask(page)
		if err != nil || next == "" {
			return err
		}
		if next == page {
			break
		}
		page = next
	}
	return ErrEndless
}
