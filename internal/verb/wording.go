package verb

import (
	"fmt"
	"strings"
	"time"
)

// Wording is a plan in words: the same for the dialog and for the command line. Texts may hold names of
// files that a stranger chose; whoever prints them makes them printable first.
type Wording struct {
	Title   string
	Goes    []Line
	Stays   []string
	WayBack string // one sentence
	Ask     string // what is asked; empty when nothing is
	Sum     string // how much room comes back
}

// Line is one thing that goes.
type Line struct {
	What string
	Path string // relative to the owner's root; empty for what is no file
	Size string
	Age  string
}

// titles say what a verb does to a subject.
var titles = map[Verb]string{
	Reset:      "Reset %s to its base image",
	EraseHome:  "Erase the home of %s",
	Delete:     "Delete the workspace %s",
	ImageRm:    "Delete the base image %s",
	ImagePrune: "Delete the base images that no workspace uses",
	Uninstall:  "Delete everything that Bromure TUI keeps",
}

// Words words a plan; now is what ages are counted from.
func (p *Plan) Words(now time.Time) Wording {
	w := Wording{Stays: p.Keeps}
	if title := titles[p.Verb]; strings.Contains(title, "%s") {
		w.Title = fmt.Sprintf(title, quoted(p.Subject.Name))
	} else {
		w.Title = title
	}
	for _, it := range p.Losses {
		l := Line{What: it.What, Path: it.Path, Size: size(it)}
		if it.Count > 0 {
			l.What += fmt.Sprintf(" (%s)", plural(it.Count, "thing"))
		}
		if !it.Changed.IsZero() {
			l.Age = age(now.Sub(it.Changed))
		}
		w.Goes = append(w.Goes, l)
	}
	if len(p.Losses) > 0 {
		w.Sum = Bytes(p.Own())
	}
	switch p.Weigh() {
	case AskNothing:
		w.WayBack = "Nothing is lost."
	case AskYesNo:
		w.WayBack = "The way back: " + strings.Join(p.WayBack, ", ") + "."
		w.Ask = "Do it?"
	default:
		w.WayBack = "There is no way back."
		if p.Subject.Short() == p.Subject.Name {
			w.Ask = "Type " + p.Subject.Name + " to go on"
		} else {
			w.Ask = fmt.Sprintf("Type %s (or %s) to go on", p.Subject.Name, p.Subject.Short())
		}
	}
	return w
}

func quoted(s string) string { return "“" + s + "”" }

func size(it Item) string {
	switch {
	case it.Path == "":
		return ""
	case it.Shared > 0:
		return fmt.Sprintf("%s own, %s shared", Bytes(it.Own), Bytes(it.Shared))
	}
	return Bytes(it.Own) + " own"
}

// Bytes is a number of bytes for people, in powers of 1024.
func Bytes(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1023.95 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if f >= 100 {
		return fmt.Sprintf("%.0f %ciB", f, units[i])
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// age is a time for people, in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute") + " ago"
	case d < 48*time.Hour:
		return plural(int(d/time.Hour), "hour") + " ago"
	}
	return plural(int(d/(24*time.Hour)), "day") + " ago"
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
