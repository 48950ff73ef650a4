package store

import (
	"path/filepath"
	"testing"

	"bromure.io/tui/internal/layout"
)

func BenchmarkCreate(b *testing.B) {
	s, err := Open(layout.Root(filepath.Join(b.TempDir(), "root")))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Create(b.Context(), NewWorkspace{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead is what a front's list and a reference cost with fifty workspaces.
func BenchmarkRead(b *testing.B) {
	s, err := Open(layout.Root(filepath.Join(b.TempDir(), "root")))
	if err != nil {
		b.Fatal(err)
	}
	name := ""
	for range 50 {
		ws, err := s.Create(b.Context(), NewWorkspace{})
		if err != nil {
			b.Fatal(err)
		}
		name = string(ws.Name)
	}
	id, err := s.Resolve(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.List(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Resolve(name); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Load", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Load(id); err != nil {
				b.Fatal(err)
			}
		}
	})
}
