package fs

// Status is the state of a mount's server.
type Status struct {
	PID    int    `json:"pid"`
	Health Health `json:"health"`
	// Images is how many directories the kernel reads through images, see Options.NoPassthrough.
	Images int `json:"images,omitempty"`
	// Taken is how often the mount was taken over from a server that was gone, see Options.Keeper.
	Taken int `json:"taken,omitempty"`
	// Counts is nil of a library that reads nothing from other machines.
	Counts *Counts `json:"counts,omitempty"`
	// Warm is nil without Options.Warm.
	Warm *WarmStatus `json:"warm,omitempty"`
	// Library is nil if a single tree is mounted.
	Library *LibraryStatus `json:"library,omitempty"`
}

// WarmStatus is how far a model was read ahead.
type WarmStatus struct {
	View  string `json:"view"`
	Done  int64  `json:"done"` // bytes
	Total int64  `json:"total"`
	Ended string `json:"ended,omitempty"` // why it ended before all was done
}
