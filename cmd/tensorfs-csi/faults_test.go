package main

import (
	"testing"
)

// A driver that is killed after any step is followed by one that ends in the right state, whether kubelet asks it to go on or to undo.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, step := range faultPoints {
		for name, next := range map[string]func(r *rig){
			"go on": func(r *rig) {
				r.mustPublish(with(llama(), "path", "gguf"), nil, "a")
				if got, want := r.digest("a", "model.gguf"), wanted(r.t, llama()["model"], "gguf/model.gguf"); got != want {
					r.t.Errorf("digest %s, want %s", got, want)
				}
				r.mustUnpublish("a")
			},
			"undo": func(r *rig) { r.mustUnpublish("a") },
		} {
			t.Run(step+"/"+name, func(t *testing.T) {
				r := newRig(t)
				r.kill()
				r.start(faultVariable + "=" + step)
				err := r.publish("a", with(llama(), "path", "gguf"), nil)
				if err == nil { // the step is one of unpublish
					err = r.unpublish("a")
				}
				if err == nil {
					t.Fatal("the driver was not killed")
				}
				r.kill()
				r.start()
				next(r)
				r.mustBeClean()
			})
		}
	}
}
