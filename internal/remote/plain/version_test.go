package plain

import (
	"net/http"
	"testing"
	"time"
)

// A file that was modified within the second of the answer may be modified once
// more in it, so its bytes are known by no header.
func TestVersionIsExact(t *testing.T) {
	t.Parallel()
	date := time.Unix(1_700_000_000, 0).UTC()
	at := func(d time.Duration) string { return date.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		etag, modified, date string
		want                 bool
	}{
		{`"x"`, "", "", true},
		{`"x"`, at(0), at(0), true},
		{`W/"x"`, "", at(0), false},
		{"", "", at(0), false},
		{"", at(-2 * time.Second), at(0), true},
		{"", at(-time.Second), at(0), true},
		{"", at(0), at(0), false},
		{"", at(time.Hour), at(0), false},
		{"", at(-time.Hour), "", false},
		{"", "yesterday", at(0), false},
	} {
		h := http.Header{"Etag": {c.etag}, "Last-Modified": {c.modified}, "Date": {c.date}}
		if v := versionOf(h, 1, date); v.Exact != c.want {
			t.Errorf("ETag %q, Last-Modified %q, Date %q: exact is %v, want %v", c.etag, c.modified, c.date, v.Exact, c.want)
		}
	}
}
