package metal

// What tests from outside make loaders of.
type (
	Shelf  = shelf
	Extent = extent
)

// NewOf returns a loader of a Shelf.
var NewOf = newLoader
