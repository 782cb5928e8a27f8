package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views/tree"
)

type keepOptions struct{ socket string }

func (s system) keep() *cobra.Command {
	o := &keepOptions{}
	return s.command("keep", between(0, 0), flags{"socket": &o.socket}, func(cmd *cobra.Command, _ []string) error {
		return server.Keep(o.socket, cmd.OutOrStdout())
	})
}

// treeVersion changes whenever the same model gets other names or other bytes: another
// version of tensorfs takes a mount over only if its number is the same. TestTreeVersion
// detects that.
const treeVersion = 1

// identity sums up what the names and bytes of a tree follow from. It also differs if a
// file of the model was only touched, which costs no more than a fresh mount.
func (o *modelFlags) identity(t *tree.Tree) (string, error) {
	facts, _, err := o.facts(t)
	if err != nil {
		return "", err
	}
	facts = slices.DeleteFunc(facts, func(f export.Fact) bool { return f.What == factVersion })
	states := []map[string]tensorfs.FileState{t.Model.States()}
	if t.Model.Layout == "gguf" { // hf/ has its vision tower too
		tower, err := o.checked.Tower(t.Model)
		switch {
		case err != nil: // then hf/ is without one
			facts = append(facts, export.Fact{What: "vision tower", Is: err.Error()})
		case tower != nil:
			defer tower.Close()
			states = append(states, tower.States())
		}
	}
	if file := o.Imatrix; file != "" {
		importance, err := os.Stat(file)
		if err != nil {
			return "", tensorfs.PathError(file, err)
		}
		facts = append(facts, export.Fact{What: "--imatrix", Is: fileState(importance.Size(), importance.ModTime())})
	}
	text, err := json.Marshal(struct {
		Version int
		Facts   []export.Fact
		States  []map[string]tensorfs.FileState
	}{treeVersion, facts, states})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// nfsFacts sums up what a tree follows from, as far as clients can keep it. Two servers
// with the same facts give the same bytes for the same handles.
func (o *modelFlags) nfsFacts(t *tree.Tree) (string, error) {
	facts, _, err := o.facts(t)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
