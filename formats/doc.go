// Package formats finds out what a path is and opens it.
//
// It holds one explicit table of formats and no parser: those are the packages
// below it. names maps every source's tensor names to the canonical ones,
// config every source's dimensions to one schema.
package formats
