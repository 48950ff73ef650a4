package guest

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestHostnameOfHostileNames(t *testing.T) {
	for in, want := range map[string]string{
		"web":                          "web",
		"Web Server 2":                 "web-server-2",
		"  a  ":                        "a",
		"a--b__c":                      "a-b-c",
		"../canary":                    "canary",
		"":                             "workspace",
		"---":                          "workspace",
		"名前":                           "workspace",
		"Zwölf Boxkämpfer":             "zw-lf-boxk-mpfer",
		"👩‍🚀 lab":                      "lab",
		"İstanbul":                     "stanbul",
		"a\x1b[31mb":                   "a-31mb",
		"x.example.org":                "x-example-org",
		strings.Repeat("a", 63):        strings.Repeat("a", 32),
		strings.Repeat("a-", 40):       strings.TrimSuffix(strings.Repeat("a-", 16), "-"),
		strings.Repeat("a", 31) + "-b": strings.Repeat("a", 31),
		"\xff\xfe":                     "workspace",
	} {
		if got := Hostname(in); got != want {
			t.Errorf("Hostname(%q) = %q, want %q", in, got, want)
		}
	}
}

// label is RFC 1123, section 2.1, in lower case and our length.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func FuzzHostname(f *testing.F) {
	for _, s := range []string{"web", "A b", "--", "\x00", "名", strings.Repeat("a-", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := Hostname(s); !label.MatchString(got) || Hostname(got) != got {
			t.Errorf("Hostname(%q) = %q", s, got)
		}
	})
}

func TestParseLineOfHostileLines(t *testing.T) {
	for in, want := range map[string]Line{
		"BROMURE-STEP kernel 1.2s":                         {Step: StepKernel, Uptime: 1200 * time.Millisecond},
		"BROMURE-STEP ssh 900ms\r":                         {Step: StepSSH, Uptime: 900 * time.Millisecond},
		"[    0.9] usb 1-1: BROMURE-STEP disks 2s":         {Step: StepDisks, Uptime: 2 * time.Second},
		"BROMURE-STEP network 1s [    1.0] random: crng":   {Step: StepNetwork, Uptime: time.Second},
		"BROMURE-STEP handover 0s":                         {Step: StepHandover},
		"BROMURE-ERROR disks no root disk":                 {Step: StepDisks, Err: "no root disk"},
		"x BROMURE-ERROR ssh \x1b[2Jbad\x9b":               {Step: StepSSH, Err: "?[2Jbad?"},
		"BROMURE-ERROR modules a\u202eb\u2028c\u009bd":     {Step: StepModules, Err: "a?b?c?d"},
		"BROMURE-ERROR disks " + strings.Repeat("e", 2000): {Step: StepDisks, Err: strings.Repeat("e", MaxLine-len("BROMURE-ERROR disks "))},
	} {
		if got, ok := ParseLine(in); !ok || got != want {
			t.Errorf("ParseLine(%.80q) = %+v, %v, want %+v", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "BROMURE-STEP", "BROMURE-STEP ", "BROMURE-STEP ssh", "BROMURE-STEP ssh soon", "BROMURE-STEP ssh -1s",
		"BROMURE-STEP reboot 1s", "BROMURE-STEP SSH 1s", "BROMURE-STEP ../x 1s", "BROMURE-STEP ssh 99999999999999h", "BROMURE-STEP ssh NaNs",
		"BROMURE-ERROR ", "BROMURE-ERROR ssh", "BROMURE-ERROR ssh ", "BROMURE-ERROR nothing at all",
		"BROMURE-PROBE-OK", "bromure-step ssh 1s", strings.Repeat("x", MaxLine) + "BROMURE-STEP ssh 1s",
	} {
		if got, ok := ParseLine(in); ok {
			t.Errorf("ParseLine(%.80q) = %+v", in, got)
		}
	}
}

func TestFormatLines(t *testing.T) {
	for _, s := range Steps {
		for _, d := range []time.Duration{0, time.Millisecond, 1234567 * time.Microsecond, 26 * time.Hour} {
			got, ok := ParseLine(FormatStep(s, d))
			if want := (Line{Step: s, Uptime: d.Round(time.Millisecond)}); !ok || got != want {
				t.Errorf("%q reads as %+v, %v", FormatStep(s, d), got, ok)
			}
		}
		for msg, want := range map[string]string{
			"no disk": "no disk", "": "no reason given", " \n": "?", "two\nlines": "two?lines",
			"BROMURE-STEP ssh 1s": "",
		} {
			line := FormatError(s, errors.New(msg))
			got, ok := ParseLine(line)
			if want == "" { // an error that quotes another line must still be an error
				want = msg
			}
			if !ok || got != (Line{Step: s, Err: want}) {
				t.Errorf("%q reads as %+v, %v", line, got, ok)
			}
		}
	}
}
