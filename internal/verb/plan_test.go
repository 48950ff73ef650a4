package verb

import (
	"strings"
	"testing"
	"time"
)

func TestWeigh(t *testing.T) {
	lost := []Item{{Path: "disk.img"}}
	for want, p := range map[Question]Plan{
		AskNothing: {WayBack: []string{"x"}},
		AskYesNo:   {Losses: lost, WayBack: []string{"checkpoint 1"}},
		AskName:    {Losses: lost},
	} {
		if got := p.Weigh(); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
}

func TestConfirms(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef"
	p := Plan{Subject: Subject{Kind: "workspace", ID: id, Name: "api"}}
	for typed, want := range map[string]bool{
		"api": true, " api\n": true, id[:12]: true, id: true,
		"": false, "y": false, "yes": false, "API": false, "ap": false, id[:11]: false, "api2": false,
	} {
		if got := p.Confirms(typed); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}

func TestFingerprint(t *testing.T) {
	a := Item{Owner: "w", Kind: "disk", Path: "disk.img", Identity: "1:2", Own: 5, Changed: time.Unix(1, 0)}
	b := Item{Owner: "w", Kind: "home", Path: "home.img", Identity: "1:3"}
	base := Fingerprint([]Item{a, b})
	if Fingerprint([]Item{b, a}) != base {
		t.Error("the order counts")
	}
	grown := a
	grown.Own, grown.Changed = 500, time.Unix(2, 0)
	if Fingerprint([]Item{grown, b}) != base {
		t.Error("a size or a time counts")
	}
	other := a
	other.Identity = "1:4"
	for name, inv := range map[string][]Item{"another file": {other, b}, "one more": {a, b, {Path: "c"}}, "one less": {a}} {
		if Fingerprint(inv) == base {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestCatalogue(t *testing.T) {
	seen := map[Verb]bool{}
	for _, r := range Catalogue {
		if seen[r.Verb] || r.Title == "" || r.Noun == "" {
			t.Errorf("row %+v", r)
		}
		seen[r.Verb] = true
		if _, titled := titles[r.Verb]; titled != r.Removes {
			t.Errorf("%s removes: %v, has the title of a plan: %v", r.Verb, r.Removes, titled)
		}
	}
}

func TestWords(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := Plan{
		Verb:    EraseHome,
		Subject: Subject{Kind: "workspace", ID: "a41f" + strings.Repeat("0", 28), Name: "api-server"},
		Losses: []Item{
			{What: "/home/ubuntu", Path: "home.img", Own: 3_328_599_654, Changed: now.Add(-50 * time.Hour)},
			{What: "the home half of a checkpoint", Path: "checkpoints/x/home.img", Own: 10, Shared: 1 << 30, Changed: now.Add(-time.Second)},
			{What: "the logs", Path: "logs", Own: 2048, Count: 2, Changed: now.Add(-time.Hour)},
			{What: "a key-store entry"},
		},
		Keeps: []string{"the settings"},
	}
	w := p.Words(now)
	if w.Title != "Erase the home of “api-server”" || w.Sum != "3.1 GiB" || w.WayBack != "There is no way back." || w.Ask != "Type api-server (or a41f00000000) to go on" {
		t.Errorf("%+v", w)
	}
	want := []Line{
		{"/home/ubuntu", "home.img", "3.1 GiB own", "2 days ago"},
		{"the home half of a checkpoint", "checkpoints/x/home.img", "10 B own, 1.0 GiB shared", "just now"},
		{"the logs (2 things)", "logs", "2.0 KiB own", "1 hour ago"},
		{"a key-store entry", "", "", ""},
	}
	for i, l := range w.Goes {
		if l != want[i] {
			t.Errorf("line %d: %+v, want %+v", i, l, want[i])
		}
	}
	p.WayBack = []string{"checkpoint 1", "checkpoint 2"}
	if w := p.Words(now); w.WayBack != "The way back: checkpoint 1, checkpoint 2." || w.Ask != "Do it?" {
		t.Errorf("%+v", w)
	}
}
