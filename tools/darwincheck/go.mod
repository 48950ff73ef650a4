// A module of its own, so that the analysis framework never enters the product's dependencies.
module bromure.io/tui/tools/darwincheck

go 1.26.3

require golang.org/x/tools v0.52.0
