package kit

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/problem"
)

// Action names what a key does, for the screen that has it and for the finder.
type Action string

// Bind is a key with what it does.
type Bind struct {
	key.Binding
	Action Action
	Long   string // for help
	Off    error  // why it does nothing now; nil: it works
	Rank   int    // footers drop greater ones first; 0: never shown there
}

// B makes a binding. The label of its keys is how people write them; short is for the footer.
func B(a Action, rank int, label, short, long string, keys ...string) Bind {
	return Bind{Binding: key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, short)), Action: a, Long: long, Rank: rank}
}

// OffIf is the binding with a reason why it does nothing; nil leaves it on.
func (b Bind) OffIf(why error) Bind {
	b.Off = why
	return b
}

// Keys are the bindings of a screen, in the order in which help shows them.
type Keys []Bind

// Find is the binding of a key.
func (k Keys) Find(msg tea.KeyPressMsg) (Bind, bool) {
	for _, b := range k {
		if key.Matches(msg, b.Binding) {
			return b, true
		}
	}
	return Bind{}, false
}

// Why is the sentence that a key which is off is answered with.
func (b Bind) Why() string {
	if b.Off == nil {
		return ""
	}
	why := b.Off.Error()
	// A hint that names a command is for those who type commands; here there is a key.
	if h := problem.HintOf(b.Off); h != "" && !strings.Contains(h, "bromure-cli") {
		why += ". " + h
	}
	return why
}

// Footer shows the keys that fit into w cells; those of great rank are dropped first, and those that are off are not shown.
func (k Keys) Footer(t *Theme, w int) string {
	limit := 1
	for _, b := range k {
		limit = max(limit, b.Rank)
	}
	for ; limit > 1; limit-- {
		if line, whole := k.footer(t, limit, w); whole {
			return Pad(line, w)
		}
	}
	line, _ := k.footer(t, 1, w)
	return Pad(line, w)
}

// footer shows the keys up to a rank; whole says whether all of them fit into w cells.
func (k Keys) footer(t *Theme, limit, w int) (line string, whole bool) {
	n := 0
	for _, b := range k {
		if b.Rank == 0 || b.Rank > limit || b.Off != nil {
			continue
		}
		h := b.Help()
		before := 2 // cells between two keys
		if n == 0 {
			before = 1
		}
		cells := before + Width(h.Key) + 1 + Width(h.Desc)
		if n+cells > w {
			return line, false
		}
		line += Pad("", before) + t.Key.Render(h.Key) + " " + t.Dim.Render(h.Desc)
		n += cells
	}
	return line, true
}
