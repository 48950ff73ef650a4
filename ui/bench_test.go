package ui

import (
	"fmt"
	"testing"

	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// BenchmarkFrame draws a whole frame with 200 workspaces; the aim is 2 ms at 200x60.
func BenchmarkFrame(b *testing.B) {
	for _, size := range []kit.Size{{W: 80, H: 24}, {W: 200, H: 60}} {
		for _, dialog := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx%d/dialog=%v", size.W, size.H, dialog), func(b *testing.B) {
				m := fixed(size, kit.Dark)
				s := fixture()
				for i := range 200 {
					w := workspace("9", fmt.Sprintf("workspace-%03d", i), vm.Off)
					w.ID = vm.ID(fmt.Sprintf("%032x", i+0x1000))
					s.Workspaces = append(s.Workspaces, w)
				}
				m.Update(snapshot{s})
				if dialog {
					m.types("K")
				}
				for b.Loop() {
					_ = m.View()
				}
			})
		}
	}
}
