package manual

import (
	"strings"
	"testing"
)

// TestManualText holds what the conventions of help texts become.
func TestManualText(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a MODEL with -l or --lazy.", `.PP|a \fIMODEL\fR with \fB\-l\fR or \fB\-\-lazy\fR.|`},
		{"One. Two\nthree.", ".PP|One. Two three.|"},
		{".begins with a full stop", `.PP|\&.begins with a full stop|`},
		{`back\slash, 2^-24, a_b_c and [*]`, `.PP|back\eslash, 2\(ha\-24, a_b_c and [*]|`},
		{"  a      one\n  bb     two,\n         more", `.TP|\fIa\fR|one|.TP|\fIbb\fR|two, more|`},
		{"  a  b  c\n  .d\n    -e", `.PP|.nf|.RS 4n|a  b  c|\&.d|  \-e|.RE|.fi|`},
		{"one\n\ntwo", ".PP|one|.PP|two|"},
	} {
		if got := strings.ReplaceAll((roff{[]string{"MODEL"}}).text(test.text), "\n", "|"); got != test.want {
			t.Errorf("%q: %s, want %s", test.text, got, test.want)
		}
	}
}
