package guest

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParseLine(t *testing.T) {
	for in, want := range map[string]Line{
		"BROMURE-STEP kernel 1.234s":                             {Step: StepKernel, Uptime: 1234 * time.Millisecond},
		"BROMURE-STEP handover 1m2.5s\r":                         {Step: StepHandover, Uptime: 62500 * time.Millisecond},
		"[    1.5] half a line BROMURE-STEP ssh 2s":              {Step: StepSSH, Uptime: 2 * time.Second},
		"BROMURE-STEP ssh 2s [    1.5] the kernel writes behind": {Step: StepSSH, Uptime: 2 * time.Second},
		"BROMURE-ERROR disks no disk with that serial":           {Step: StepDisks, Err: "no disk with that serial"},
		"x BROMURE-ERROR ssh BROMURE-STEP ssh 1s":                {Step: StepSSH, Err: "BROMURE-STEP ssh 1s"},
		"BROMURE-STEP ssh 1s BROMURE-ERROR ssh no":               {Step: StepSSH, Uptime: time.Second},
		"BROMURE-ERROR disks \x1b]0;title\x07":                   {Step: StepDisks, Err: "?]0;title?"},
		"":                                                       {},
		"BROMURE-STEP ":                                          {},
		"BROMURE-STEP ssh":                                       {},
		"BROMURE-STEP ssh soon":                                  {},
		"BROMURE-STEP ssh -1s":                                   {},
		"BROMURE-STEP coffee 1s":                                 {},
		"BROMURE-ERROR ssh":                                      {},
		"BROMURE-ERROR coffee is cold":                           {},
		"bromure-step ssh 1s":                                    {},
		strings.Repeat(" ", MaxLine) + "BROMURE-STEP ssh 1s":     {},
	} {
		got, ok := ParseLine(in)
		if got != want || ok != (want.Step != "") {
			t.Errorf("%q: %+v, %v; want %+v", in, got, ok, want)
		}
	}
}

func TestLinesRoundTrip(t *testing.T) {
	for _, s := range Steps {
		if l, ok := ParseLine(FormatStep(s, 1500*time.Millisecond)); !ok || l != (Line{Step: s, Uptime: 1500 * time.Millisecond}) {
			t.Errorf("%s: %+v, %v", s, l, ok)
		}
		if l, ok := ParseLine(FormatError(s, errors.New("a\nb"))); !ok || l != (Line{Step: s, Err: "a?b"}) {
			t.Errorf("%s: %+v, %v", s, l, ok)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("BROMURE-STEP kernel 1.234s")
	f.Add("BROMURE-ERROR disks BROMURE-STEP ssh 1s")
	f.Fuzz(func(t *testing.T, in string) {
		l, ok := ParseLine(in)
		if ok != (l.Step != "") || l.Uptime < 0 || len(l.Err) > 4*MaxLine || !utf8.ValidString(l.Err) {
			t.Errorf("%q: %+v, %v", in, l, ok)
		}
		if ok && l.Err != "" {
			if again, ok := ParseLine(FormatError(l.Step, errors.New(l.Err))); !ok || len(in) < MaxLine/4 && again.Step != l.Step {
				t.Errorf("%+v became %+v, %v", l, again, ok)
			}
		}
	})
}

func TestHostname(t *testing.T) {
	for in, want := range map[string]string{
		"My Work": "my-work", "": "workspace", "émile": "mile", "---": "workspace", "日本": "workspace", "a--b": "a-b",
		strings.Repeat("a", 31) + "-b": strings.Repeat("a", 31), strings.Repeat("x", 50): strings.Repeat("x", 32), "Ärger mit 3": "rger-mit-3",
	} {
		got := Hostname(in)
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if Hostname(got) != got {
			t.Errorf("%q is not its own host name", got)
		}
	}
}
