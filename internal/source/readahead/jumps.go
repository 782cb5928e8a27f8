package readahead

// jumps learns in which order a reader goes through the sections of a file, if that is not their order in the file:
// a program that reads the tensors of a directory by name goes back and forth, in every layer in the same way. It
// knows a jump by the length of the section and by the jump before.
type jumps struct {
	section Span  // that was entered last
	before  int64 // the jump that led to it
	known   [maxJumps]jump
	made    int
	told    [maxAhead]foretold
	tellers int
}

// jump is the way from one section to the next.
type jump struct {
	length int64 // of the section
	before int64 // the jump that led to the section
	by     int64 // from the start of the section to the start of the next one; 0 is unused
	next   int64 // length of the next section
}

// foretold is how far an expected section was asked for.
type foretold struct {
	start, ahead int64
	run          int64 // of the stream that is expected
}

const (
	maxJumps = 32 // a layer has fewer large tensors
	maxAhead = 8  // sections that are expected at a time
	// Shorter sections do not count: they come with the pages around them.
	leastSection = firstRun
)

// enter notes that a stream has come into a section.
func (j *jumps) enter(section Span) {
	if section.To-section.From < leastSection {
		return
	}
	if from := j.section; from != (Span{}) && section.From != from.From {
		made := jump{from.To - from.From, j.before, section.From - from.From, section.To - section.From}
		if at := j.find(from.To-from.From, j.before); at != nil {
			*at = made
		} else {
			j.known[j.made%maxJumps] = made
			j.made++
		}
		j.before = made.by
	}
	j.section = section
}

// find returns the known jump from a section of this length that the jump before led to, or nil.
func (j *jumps) find(length, before int64) *jump {
	for i := range j.known {
		if k := &j.known[i]; k.by != 0 && k.length == length && k.before == before {
			return k
		}
	}
	return nil
}

// next returns the section that is expected after one that the jump before led to.
func (j *jumps) next(section Span, before int64) (next Span, by int64, ok bool) {
	k := j.find(section.To-section.From, before)
	if k == nil || section.From+k.by < 0 {
		return Span{}, 0, false
	}
	return Span{section.From + k.by, section.From + k.by + k.next}, k.by, true
}

// leads reports whether readers are expected to go from a section, which was entered last, to
// another place than its end.
func (j *jumps) leads(section Span) bool {
	next, _, ok := j.next(section, j.before)
	return ok && section == j.section && next.From != section.To
}

// foretell appends what is to be brought in now of the sections that are expected after this one: window bytes in all.
func (j *jumps) foretell(dst []Span, section Span, window, piece, run int64) []Span {
	before := j.before
	for range maxAhead {
		next, by, ok := j.next(section, before)
		if !ok || window <= 0 {
			break
		}
		told := j.toldOf(next.From)
		told.run = run
		limit := min(next.From+window, next.To)
		for told.ahead+piece <= limit || told.ahead < limit && limit == next.To {
			to := min(told.ahead+piece, limit)
			dst = append(dst, Span{told.ahead, to})
			told.ahead = to
		}
		window -= next.To - next.From
		section, before = next, by
	}
	return dst
}

// toldOf returns how far the section that begins at start was asked for.
func (j *jumps) toldOf(start int64) *foretold {
	for i := range j.told {
		if told := &j.told[i]; told.ahead > 0 && told.start == start {
			return told
		}
	}
	told := &j.told[j.tellers%maxAhead]
	j.tellers++
	*told = foretold{start: start, ahead: start}
	return told
}

// arrived returns what was asked for of the section that begins at start, if it was expected: up to where, and the run of
// its stream.
func (j *jumps) arrived(start int64) (ahead, run int64, ok bool) {
	for i, told := range j.told {
		if told.ahead > 0 && told.start == start {
			j.told[i] = foretold{}
			return told.ahead, told.run, true
		}
	}
	return 0, 0, false
}
