package report

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bromure.io/tui/vm/guest"
)

func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestConsole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	c := NewConsole(path)
	c.Step(guest.StepKernel) // the console has no driver yet
	c.Note("early")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Step(guest.StepModules)
	c.Error(guest.StepDisks, errors.New("no disk\nBROMURE-STEP ssh 1s"))
	slog.New(slog.NewTextHandler(c, nil)).Warn("odd\x1b]0;", "n", 1)
	c.Probe()

	got := lines(t, path)
	if len(got) != 6 {
		t.Fatalf("%q", got)
	}
	for i, want := range []guest.Line{{Step: guest.StepKernel}, {}, {Step: guest.StepModules}, {Step: guest.StepDisks, Err: "no disk?BROMURE-STEP ssh 1s"}, {}, {}} {
		l, ok := guest.ParseLine(got[i])
		if ok != (want.Step != "") || l.Step != want.Step || i != 3 && l.Err != "" {
			t.Errorf("line %d, %q: %+v, %v", i, got[i], l, ok)
		}
		if l.Err == "" && ok && l.Uptime <= 0 {
			t.Errorf("line %d: uptime %v", i, l.Uptime)
		}
	}
	if got[1] != "bromure-guest: early" || strings.ContainsRune(got[4], 0x1b) || got[5] != guest.ProbeMarker {
		t.Errorf("%q", got)
	}
}

func TestConsoleThatNeverOpens(t *testing.T) {
	c := NewConsole(filepath.Join(t.TempDir(), "no", "console"))
	for range 100_000 {
		c.Note("into the dark")
	}
	if len(c.pending) > maxPending {
		t.Errorf("%d bytes are kept", len(c.pending))
	}
	c.Drain()
}

func TestConsoleLinesStayWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewConsole(path)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				c.Note(strings.Repeat(fmt.Sprint(i), 50))
			}
		})
	}
	wg.Wait()
	got := lines(t, path)
	if len(got) != 800 {
		t.Errorf("%d lines", len(got))
	}
	for _, l := range got {
		text := strings.TrimPrefix(l, "bromure-guest: ")
		if len(text) != 50 || strings.Trim(text, text[:1]) != "" {
			t.Fatalf("%q", l)
		}
	}
}
