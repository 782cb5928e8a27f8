package remote

import "errors"

// AtOnce is how many files are requested concurrently.
const AtOnce = 16

// MaxPages bounds the pages of a list.
const MaxPages = 1000

// ErrEndless marks a list of pages that does not end.
var ErrEndless = errors.New("it does not end")

// Pages fetches the pages of a list, beginning with first. ask returns the name of the page
// after this one, "" after the last.
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
