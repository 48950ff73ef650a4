package netstack

import (
	_ "embed"
	"strings"
	"sync"
)

// resolvers.txt lists public resolvers: names and addresses of services to which clients send
// DNS over HTTPS, and the names that tell such clients not to. If they were reachable, names would be
// resolved past us: connections would lose their names, and the questions themselves would carry data out.
//
//go:embed resolvers.txt
var resolversText string

// resolverSet is parsed once and never changes.
var resolverSet = sync.OnceValue(func() map[string]struct{} {
	set := make(map[string]struct{})
	for line := range strings.Lines(resolversText) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			set[line] = struct{}{}
		}
	}
	return set
})

// isResolver says whether a normal name, or the text of an address, is in the list. A name
// stands for everything below it, too.
func isResolver(name string) bool {
	set := resolverSet()
	for {
		if _, ok := set[name]; ok {
			return true
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return false
		}
		name = rest
	}
}
