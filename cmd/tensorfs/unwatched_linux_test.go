package main

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
)

// TestUnwatched mounts models when no inotify instance is left: status reports this, and any change
// of the times of a model's file makes its tensors fail, so that no tensor gives new bytes.
func TestUnwatched(t *testing.T) {
	if !testwatch.Without(t) {
		return
	}
	original := largeModel(t)
	for _, f := range []fault{
		{"left alone", func(*testing.T, string) {}, same},
		{"overwritten, and the times put back", func(t *testing.T, p string) {
			st := statOf(t, p)
			overwrite(t, p)
			must(t, os.Chtimes(p, st.ModTime(), st.ModTime()))
		}, fails},
		{"overwritten through a mapping, and the times put back", func(t *testing.T, p string) {
			st := statOf(t, p)
			overwriteMapped(t, p)
			must(t, os.Chtimes(p, st.ModTime(), st.ModTime()))
		}, fails},
		{"renamed, a false alarm", func(t *testing.T, p string) { must(t, os.Rename(p, p+".old")) }, fails},
	} {
		t.Run(f.name, func(t *testing.T) {
			m := newFaultModel(t, original)
			const why = "raise fs.inotify.max_user_instances"
			if st := statusOf(t, m.mount); st == nil || !st.Healthy || !strings.Contains(st.Unwatched, why) {
				t.Errorf("status %+v", st)
			}
			if _, out, _ := command("status"); !strings.Contains(out, m.mount+": no watch: ") || !strings.Contains(out, why) {
				t.Errorf("status prints %s", out)
			}
			f.do(t, m.file)
			rng := rand.New(rand.NewPCG(1, 2))
			for i, x := range m.files {
				how := ways()[i%len(ways())]
				if err := look(x, how, rng); !asWanted(f.want, err) {
					t.Errorf("%s by %s: %v; want %s", x.path, readers[how].name, err, f.want)
				}
			}
			if st := statusOf(t, m.mount); st == nil || st.Healthy != (f.want == same) || f.want == fails && !strings.Contains(st.LastError.Message, "changed after it was mounted") {
				t.Errorf("status %+v", st)
			}
		})
	}
}
