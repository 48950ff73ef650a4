package kit

import (
	"strings"

	"bromure.io/tui/vm/guest"
)

// historyLen is how many readings a meter shows.
const historyLen = 60

// Load is what the readings of one guest say over time. The readings are the guest's word: every number is bounded.
type Load struct {
	CPU     float64   // 0 to 1, of all its processors, between the last two readings
	History []float64 // of CPU, oldest first
	Mem     []float64
	last    guest.Stats
	seen    bool
}

// Push takes a reading in. A reading that is no later than the last one changes nothing, one from before it begins anew.
func (l *Load) Push(s guest.Stats) {
	switch {
	case l.seen && s.Uptime == l.last.Uptime:
		return
	case l.seen && s.Uptime > l.last.Uptime && s.CPUs > 0:
		l.CPU = unit(float64(s.CPUBusy-l.last.CPUBusy) / (float64(s.Uptime-l.last.Uptime) * float64(s.CPUs)))
		l.History = push(l.History, l.CPU)
	case l.seen:
		l.CPU, l.History, l.Mem = 0, nil, nil
	}
	if s.MemTotal > 0 {
		l.Mem = push(l.Mem, unit(float64(s.MemUsed)/float64(s.MemTotal)))
	}
	l.last, l.seen = s, true
}

func push(list []float64, v float64) []float64 {
	list = append(list, v)
	return list[max(0, len(list)-historyLen):]
}

// unit bounds a fraction; what is no number is 0.
func unit(f float64) float64 {
	if !(f > 0) {
		return 0
	}
	return min(f, 1)
}

// Spark draws the last w values, oldest first.
func Spark(t *Theme, values []float64, w int) string {
	values = values[max(0, len(values)-max(0, w)):]
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(0, w-len(values))))
	steps := t.Glyph.Spark
	for _, v := range values {
		b.WriteString(steps[min(int(unit(v)*float64(len(steps))), len(steps)-1)])
	}
	return b.String()
}

// Meter is a bar of w cells that is filled to a fraction.
func Meter(t *Theme, v float64, w int) string {
	n := min(int(unit(v)*float64(w)+0.5), w)
	full, empty := "━", "─"
	if t.Glyph.Top == "-" {
		full, empty = "#", "-"
	}
	return t.Accent.Render(strings.Repeat(full, max(0, n))) + t.Border.Render(strings.Repeat(empty, max(0, w-n)))
}
