// Package formats finds out what a path is and opens it.
//
// It holds one explicit table of formats. The parsers are in the packages below
// it. Package names maps every source's tensor names to the canonical ones, and
// config maps every source's dimensions to one schema.
package formats
