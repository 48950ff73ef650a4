package screens

import (
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// Form asks for a new workspace, and says what is wrong with a field while it is typed.
type Form struct {
	fields []kit.Field
	at     int
	start  bool
}

// Fields of the form, in their order.
const (
	fieldName = iota
	fieldCPUs
	fieldMemory
	fieldHome
	fieldNotes
)

// NewForm is the form with nothing filled in; empty fields mean the defaults.
func NewForm(f *kit.Frame) Form {
	return Form{start: true, fields: []kit.Field{
		fieldName:   {Label: "name", Empty: "made up", Max: vm.MaxNameRunes},
		fieldCPUs:   {Label: "CPUs", Empty: strconv.Itoa(vm.DefaultCPUs), Max: 3},
		fieldMemory: {Label: "memory", Empty: "4, or a quarter of the host's", Unit: "GiB", Max: 6},
		fieldHome:   {Label: "home", Empty: strconv.Itoa(vm.DefaultHomeMiB / 1024), Unit: "GiB at most", Max: 6},
		fieldNotes:  {Label: "notes", Empty: "none", Max: 200},
	}}
}

// Keys are those of a form.
func (s Form) Keys(f *kit.Frame) kit.Keys {
	_, _, bad := s.want(f)
	return kit.Keys{
		kit.B("create", 1, "enter", "create", "Create it", "enter").OffIf(bad),
		kit.B("next field", 2, "tab", "next field", "The next field", "tab", "down"),
		kit.B("field before", 0, "shift+tab", "field before", "The field before", "shift+tab", "up"),
		kit.B("start", 2, "ctrl+s", "start it or not", "Whether it is started as well", "ctrl+s"),
		kit.B("close", 1, "esc", "leave", "Create nothing", "esc", "ctrl+c"),
	}
}

// Update answers keys.
func (s Form) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	switch msg := msg.(type) {
	case tea.PasteMsg:
		s.edit(func(fl *kit.Field) { fl.Insert(msg.Content) })
	case tea.KeyPressMsg:
		b, known := s.Keys(f).Find(msg)
		switch {
		case known && b.Off != nil:
			return s, nil // the field says why
		case known:
			return s.act(f, b.Action)
		}
		s.edit(func(fl *kit.Field) { fl.Press(msg) })
	}
	return s, nil
}

// edit changes the current field, in a copy of the form's fields.
func (s *Form) edit(change func(*kit.Field)) {
	s.fields = append([]kit.Field(nil), s.fields...)
	change(&s.fields[s.at])
}

func (s Form) act(f *kit.Frame, a kit.Action) (kit.Screen, []kit.Intent) {
	n := len(s.fields)
	switch a {
	case "next field":
		s.at = (s.at + 1) % n
	case "field before":
		s.at = (s.at + n - 1) % n
	case "start":
		s.start = !s.start
	case "close":
		return s, []kit.Intent{kit.Close{}}
	case "create":
		want, _, _ := s.want(f)
		return s, []kit.Intent{kit.Close{}, kit.CreateWorkspace{Want: want, Start: s.start}}
	}
	return s, nil
}

// want is what the fields say; bad is what is wrong with the field at.
func (s Form) want(f *kit.Frame) (c wire.Create, at int, bad error) {
	c = wire.Create{Name: strings.TrimSpace(s.fields[fieldName].Value), Notes: s.fields[fieldNotes].Value}
	if c.Name != "" {
		name, err := vm.ParseName(c.Name)
		if err != nil {
			return c, fieldName, err
		}
		for _, w := range f.Snap.Workspaces {
			if w.Name.Key() == name.Key() {
				return c, fieldName, fmt.Errorf("there is a workspace called %q already", name)
			}
		}
	}
	if v := s.fields[fieldCPUs].Value; v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > vm.MaxCPUs {
			return c, fieldCPUs, fmt.Errorf("a number from 1 to %d", vm.MaxCPUs)
		}
		c.CPUs = n
	}
	memory, err := gibibytes(s.fields[fieldMemory].Value, vm.MinMemoryMiB, vm.MaxMemoryMiB)
	if err != nil {
		return c, fieldMemory, err
	}
	home, err := gibibytes(s.fields[fieldHome].Value, vm.MinHomeMiB, vm.MaxHomeMiB)
	if err != nil {
		return c, fieldHome, err
	}
	c.MemoryMiB, c.HomeMiB = int(memory), home
	return c, 0, nil
}

// gibibytes reads a size like 4 or 0.5; nothing is 0, the default.
func gibibytes(s string, low, high int64) (mib int64, err error) {
	if s == "" {
		return 0, nil
	}
	g, err := strconv.ParseFloat(s, 64)
	if mib = int64(g * 1024); err != nil || !(g > 0) || g > float64(high) || mib < low || mib > high {
		return 0, fmt.Errorf("a size from %g to %g", float64(low)/1024, float64(high)/1024)
	}
	return mib, nil
}

// View draws the form as a box.
func (s Form) View(f *kit.Frame) string {
	t := f.Theme
	w := min(64, f.Size.W-4)
	_, at, bad := s.want(f)
	lines := []string{""}
	for i, fl := range s.fields {
		lines = append(lines, fl.Draw(t, w-4, i == s.at))
		if bad != nil && i == at {
			lines = append(lines, strings.Repeat(" ", 10)+t.Danger.Render(kit.Cut(bad.Error(), w-14)))
		}
	}
	box := "[x]"
	if !s.start {
		box = "[ ]"
	}
	lines = append(lines, "", t.Text.Render(box+" start it")+t.Dim.Render("  ctrl+s"))
	return kit.Dialog(f, kit.Box{Title: t.Title.Render("New workspace")}, lines, w, s.at+1, s.Keys(f))
}
