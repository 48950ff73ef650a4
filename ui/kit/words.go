package kit

import (
	"fmt"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm"
)

// StateSign is the glyph of a workspace's state with its style. A mark comes before the state: it is what matters.
func StateSign(t *Theme, w wire.Workspace) (string, Ink) {
	switch {
	case w.Compromise != nil:
		return t.Glyph.Marked, t.Alarm
	case w.Invalid != "" || w.State == vm.Broken:
		return t.Glyph.Broken, t.Danger
	case w.State == vm.Running:
		return t.Glyph.Running, t.Good
	case w.State == vm.Starting || w.State == vm.Stopping:
		return t.Glyph.Busy, t.Warn
	}
	return t.Glyph.Off, t.Dim
}

// StateWord is the state in a word or two, with how long it has lasted.
func StateWord(w wire.Workspace, now time.Time) string {
	switch {
	case w.Compromise != nil:
		return "COMPROMISED"
	case w.Invalid != "":
		return "unreadable"
	case w.State == vm.Running && !w.Started.IsZero():
		return Span(now.Sub(w.Started))
	case w.State == vm.Broken:
		return "BROKEN"
	}
	return string(w.State)
}

// Span is a duration for people, in its two largest units at most.
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	if days := int(d / (24 * time.Hour)); days >= 7 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd %dh", int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour))
}

// Took is a short duration with a tenth of a second.
func Took(d time.Duration) string { return fmt.Sprintf("%.1f s", max(0, d).Seconds()) }

// Ago is how long something is past.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	if d := now.Sub(then); d >= time.Minute {
		return Span(d) + " ago"
	}
	return "just now"
}

// Count is a number with its noun.
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
