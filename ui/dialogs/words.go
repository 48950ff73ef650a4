package dialogs

import (
	"errors"

	"bromure.io/tui/internal/verb"
)

var errNotTyped = errors.New("the name is not typed yet")

// word is the verb on the key that does it.
func word(v verb.Verb) string {
	switch v {
	case verb.Reset:
		return "reset"
	case verb.EraseHome:
		return "erase"
	}
	return "delete"
}
