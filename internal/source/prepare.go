package source

// Preparer is an FS whose files come from afar.
type Preparer interface {
	// Prepare brings in the beginnings of files, several at a time, for a parser that
	// opens one after the other. It returns when they are here, or one of them cannot
	// be had, which its reader will see. They are kept until done is called.
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

// Prepare is that of the FS inside.
func (o *Opened) Prepare(names []string) (done func()) { return Prepare(o.FS, names) }
