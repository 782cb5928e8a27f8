package source

// Preparer is an FS whose files come from afar.
type Preparer interface {
	// Prepare fetches the beginnings of files, several concurrently, for a parser that
	// opens one after the other. It returns when they have arrived, or when a file cannot
	// be fetched, which its reader will report. done releases them.
	Prepare(names []string) (done func())
}

// Prepare has the beginnings of files brought in, where src is a [Preparer] and
// there are several.
func Prepare(src FS, names []string) (done func()) {
	if p, ok := src.(Preparer); ok && len(names) > 1 {
		return p.Prepare(names)
	}
	return func() {}
}

// Prepare calls Prepare of the FS inside.
func (o *Opened) Prepare(names []string) (done func()) { return Prepare(o.FS, names) }
