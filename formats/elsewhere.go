package formats

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Elsewhere is a model on another machine, as Options.Remote found it.
type Elsewhere struct {
	// FS has its files, as they were when it was found: see [OpenFS]. If it is an
	// io.Closer, it is closed after the model.
	FS fs.FS
	// File is the model in it: a file, or "." for the directory itself.
	File string
	// Name of the model that was found, such as "hf:ORG/NAME@COMMIT". It holds no secrets.
	Name string
	// Note is for the user, such as that the server did not answer and the model is the one
	// found before. May be "".
	Note string
}

// openNamed opens a model of a store by its name: of this machine's, or, where that
// does not have it, from where Remote finds it.
func (o Options) openNamed(s *scheme, full, name string) (*tensorfs.Model, error) {
	if o.Remote == nil || s.prefix == environ.LMStudio { // which no server has
		m, _, err := s.open(name, o.KeepInside)
		return m, err
	}
	var local error
	if !o.AskFirst && !source.Confined() {
		m, lacks, err := s.open(name, o.KeepInside)
		if err == nil || !lacks {
			return m, err
		}
		local = err
	}
	m, found, err := o.openElsewhere(full)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // some servers do not tell the two apart
		err = o.nowhere(err, local, false)
	case !found && unreached(err):
		if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
			e.File = full
		}
		err = o.nowhere(err, local, true)
	}
	return m, err
}

// unreached reports whether a server gave no answer, or was too busy for one: an
// error of the system or of the network.
func unreached(err error) bool {
	var e interface{ Timeout() bool }
	return errors.As(err, &e)
}

// nowhere is the error about a name that is not found on a server, because it is not there,
// the server does not answer or asking is forbidden. If local is not nil, it is the error
// about this machine. The error suggests similar local names. If no server may be asked, it
// is local's.
func (o Options) nowhere(err, local error, silence bool) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if ok && silence && o.AskFirst {
		e.Advice += "; without --remote what is here is opened"
	}
	l, lok := errors.AsType[*tensorfs.FormatError](local)
	if !ok || !lok {
		return err
	}
	if silence && o.Offline == "" && !IsName(l.File) { // a path: the model is here, but not all its files
		l.Problem += ", and " + e.Problem
		return local
	}
	if o.Offline != "" {
		l.Problem += ", and " + o.Offline + " forbids asking for it"
		return local
	}
	offer, isOffer := offerOf(l.Advice)
	e.Advice = offer + e.Advice
	if isOffer && strings.HasPrefix(offer, nameOne) || silence && strings.Contains(l.Problem, ", only ") { // it lists what is here
		e.Problem += ", and here " + l.Problem
	}
	if silence {
		e.Advice += "; --offline asks no server"
	}
	return err
}

// nameOne begins an advice after a problem that lists what there is.
const nameOne = "name one, such as "

// offerOf returns the beginning of an advice that offers what is here, "" where it
// offers nothing.
func offerOf(advice string) (offer string, ok bool) {
	if question, _, ok := strings.Cut(advice, "?"); ok {
		return question + "? If not, ", true
	}
	if strings.HasPrefix(advice, nameOne) || strings.HasPrefix(advice, "write it as ") {
		one, _, _ := strings.Cut(advice, ", or ")
		return one + ", or ", true
	}
	return "", false
}

// openElsewhere opens a model that Remote finds.
func (o Options) openElsewhere(name string) (m *tensorfs.Model, found bool, err error) {
	open := func(at *Elsewhere) (*tensorfs.Model, error) { return OpenFS(at.FS, at.File) }
	if prefix, n, ok, err := repository(name); ok || err != nil {
		if err != nil {
			return nil, false, err
		}
		name = under(prefix, hub.Name{Repository: n.Repository, Revision: n.Revision}.String())
		open = func(at *Elsewhere) (*tensorfs.Model, error) { return openCommit(at, prefix, n) }
	}
	at, err := o.Remote(name)
	if err != nil {
		return nil, false, err
	}
	closer, _ := at.FS.(io.Closer)
	m, err = open(&at)
	if err != nil {
		if closer != nil {
			closer.Close()
		}
		return nil, true, err
	}
	m.Name, m.Path, m.Server = at.Name, at.Name, at.FS
	if at.Note != "" {
		m.Warnings = append([]string{at.Note}, m.Warnings...)
	}
	if closer != nil {
		m.Own(closer)
	}
	return m, true, nil
}

// openCommit opens the model of a commit of a repository that a name asked for, and
// adds to the commit's name what was selected.
func openCommit(at *Elsewhere, prefix string, asked hub.Name) (*tensorfs.Model, error) {
	sel := asked.Select
	if at.File != "." {
		sel = pick.Select{Path: at.File}
	}
	m, err := openSnapshot(source.Of(at.FS), ".", "", sel, func(r *pick.Refusal) error { return errorUnder(prefix, asked.Refuse(r)) })
	if err != nil {
		return nil, err
	}
	if n, err := hub.ParseName(strings.TrimPrefix(at.Name, prefix)); err == nil {
		n.Select = sel
		at.Name = under(prefix, n.String())
	}
	return m, nil
}

// ModelScope begins the names of models of ModelScope, which are as the Hub's.
const ModelScope = "ms:"

// repository takes the name of a repository apart, and returns the prefix of its hub. ok is false for other names.
func repository(name string) (prefix string, n hub.Name, ok bool, err error) {
	for _, prefix := range []string{hub.Prefix, ModelScope} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if rest == "" && prefix != hub.Prefix {
			return prefix, n, true, &tensorfs.FormatError{File: strings.TrimSuffix(name, ":"), Offset: -1, Problem: "it names no model", Advice: "write it as " + prefix + "ORG/NAME"}
		}
		n, err := hub.ParseName(rest)
		return prefix, n, true, errorUnder(prefix, err)
	}
	return "", n, false, nil
}

// under returns the Hub's name of a repository with the prefix of another hub.
func under(prefix, name string) string { return prefix + strings.TrimPrefix(name, hub.Prefix) }

// errorUnder makes an error about a name of the Hub's one about the name of another hub. err may be nil.
func errorUnder(prefix string, err error) error {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok || prefix == hub.Prefix || !strings.HasPrefix(e.File, hub.Prefix) {
		return err
	}
	e.Advice = strings.ReplaceAll(e.Advice, " "+hub.Prefix, " "+prefix)
	e.File = under(prefix, e.File)
	return e
}

// openOllama opens a model of the local Ollama store by its name. lacks reports that the
// store does not have all of it.
func openOllama(name string, keepInside bool) (m *tensorfs.Model, lacks bool, err error) {
	m, err = ollama.OpenName(name, keepInside)
	return m, errors.Is(err, fs.ErrNotExist), err
}
