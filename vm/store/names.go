package store

import (
	"math/rand/v2"
	"strconv"

	"bromure.io/tui/vm"
)

// friendlyName makes up a name that none of the entries has.
func friendlyName(entries []Entry) vm.Name {
	taken := map[string]bool{}
	for _, e := range entries {
		taken[e.Workspace.Name.Key()] = true
	}
	pick := func(words []string) string { return words[rand.IntN(len(words))] }
	for n := 1; ; n++ {
		name := pick(adjectives()) + "-" + pick(nouns())
		if n > 50 { // nearly all pairs are taken
			name += "-" + strconv.Itoa(n)
		}
		if !taken[vm.Name(name).Key()] {
			return vm.Name(name)
		}
	}
}

func adjectives() []string {
	return []string{
		"amber", "brave", "brisk", "calm", "clear", "coral", "crisp", "curious", "deft", "early",
		"fair", "fleet", "fond", "fresh", "gentle", "glad", "golden", "hardy", "hazel", "humble",
		"keen", "kind", "light", "lively", "lucid", "mellow", "merry", "misty", "neat", "nimble",
		"patient", "plain", "polite", "quick", "quiet", "rapid", "ready", "silver", "sober", "spry",
		"steady", "sunny", "swift", "tidy", "tranquil", "vivid", "warm", "wise",
	}
}

func nouns() []string {
	return []string{
		"alder", "anchor", "badger", "beacon", "birch", "bridge", "brook", "cedar", "comet", "crane",
		"delta", "ember", "falcon", "fern", "finch", "forge", "garden", "harbor", "heron", "island",
		"juniper", "lantern", "lark", "ledger", "linden", "maple", "marten", "meadow", "mill", "orchard",
		"osprey", "otter", "pebble", "pine", "plover", "quarry", "raven", "reef", "river", "robin",
		"saddle", "sparrow", "spruce", "summit", "thicket", "tide", "valley", "willow",
	}
}
