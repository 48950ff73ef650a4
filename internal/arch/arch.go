// Package arch holds the house to its plan. It has tests only: which package may import which
// (rooms_test.go), where a dependency or a delicate standard package may be used (doors_test.go),
// and what every file and package looks like (shape_test.go).
//
// A new package gets its row in rooms_test.go, with a reason, in the commit that adds it.
package arch
