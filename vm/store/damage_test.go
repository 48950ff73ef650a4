package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// edit changes workspace.json as a user with an editor would.
func edit(t *testing.T, s *Store, id vm.ID, change func(m map[string]any)) {
	t.Helper()
	path := s.Root.Workspace(string(id)).Config()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	data, err = json.Marshal(m)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFieldsSurvive(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	edit(t, s, ws.ID, func(m map[string]any) {
		m["folders"] = []any{map[string]any{"path": "/x", "big": json.Number("123456789012345678901234567890")}}
		m["NAME"] = "not the name" // encoding/json alone would take it for one
		m["\u00fcber <tag>"] = nil
	})
	for range 2 {
		if _, err := s.Update(ws.ID, func(w *vm.Workspace) error { w.Notes += "n"; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(s.Root.Workspace(string(ws.ID)).Config())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, got["folders"]); err != nil {
		t.Fatal(err)
	}
	if compact.String() != `[{"big":123456789012345678901234567890,"path":"/x"}]` ||
		string(got["NAME"]) != `"not the name"` || string(got["\u00fcber <tag>"]) != "null" || string(got["notes"]) != `"nn"` || string(got["name"]) != `"one"` {
		t.Errorf("workspace.json is now %s", data)
	}
}

func TestNewerVersionIsRefused(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	edit(t, s, ws.ID, func(m map[string]any) { m["version"] = 2; m["cpus"] = "as many as there are" })
	path := s.Root.Workspace(string(ws.ID)).Config()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{
		"Load":   second(s.Load(ws.ID)),
		"Update": second(s.Update(ws.ID, func(*vm.Workspace) error { return nil })),
	} {
		if problem.KindOf(err) != problem.Refused || problem.HintOf(err) == "" {
			t.Errorf("%s: %v; hint %q", verb, err, problem.HintOf(err))
		}
	}
	if got := list(t, s); len(got) != 1 || got[0].Err == nil || got[0].Workspace.Name != "one" {
		t.Errorf("List = %+v", got)
	}
	if _, err := s.Create(t.Context(), NewWorkspace{Name: "ONE"}); problem.KindOf(err) != problem.Refused {
		t.Errorf("its name was given away: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was rewritten: %s, %v", after, err)
	}
}

func TestListHidesNothing(t *testing.T) {
	s := newStore(t)
	create(t, s, "good")
	dir := s.Root.Workspaces()
	broken := map[vm.ID]string{} // ID → part of the error
	plant := func(why string, make func(path string) error) {
		id := vm.NewID()
		broken[id] = why
		if err := make(filepath.Join(dir, string(id))); err != nil {
			t.Fatal(err)
		}
	}
	with := func(content string) func(string) error {
		return func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "workspace.json"), []byte(content), 0o600))
		}
	}
	plant("no workspace.json", func(p string) error { return os.Mkdir(p, 0o700) })
	plant("not a directory", func(p string) error { return os.WriteFile(p, nil, 0o600) })
	plant("not a directory", func(p string) error { return os.Symlink("/", p) })
	plant("not a directory", func(p string) error { return os.Symlink(filepath.Join(dir, "nowhere"), p) })
	plant("damaged", with(""))
	plant("damaged", with("{"))
	plant("damaged", with("null"))
	plant("damaged", with("[1]"))
	plant("no version", with("{}"))
	plant("no version", with(`{"version":-1}`))
	plant("belongs to", with(`{"version":1}`))
	plant("belongs to", with(`{"version":1,"id":"../canary"}`))
	plant("more than", with(strings.Repeat(" ", maxFile+1)))
	plant(`"cpus"`, with(`{"version":1,"cpus":"two"}`))
	plant("regular file", func(p string) error {
		return errors.Join(os.Mkdir(p, 0o700), syscall.Mkfifo(filepath.Join(p, "workspace.json"), 0o600))
	})
	plant("regular file", func(p string) error { return os.MkdirAll(filepath.Join(p, "workspace.json"), 0o700) })
	plant("too many levels", func(p string) error {
		return errors.Join(os.Mkdir(p, 0o700), os.Symlink("/etc/passwd", filepath.Join(p, "workspace.json")))
	})
	if os.Getuid() != 0 { // nothing is unreadable for root
		plant("permission denied", func(p string) error { return os.Mkdir(p, 0) })
	}
	for _, foreign := range []string{".DS_Store", "lost+found", "README", strings.Repeat("A", 32), strings.Repeat("a", 31)} {
		if err := os.Mkdir(filepath.Join(dir, foreign), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	entries := list(t, s)
	if len(entries) != len(broken)+1 {
		t.Errorf("%d entries, want %d: %v", len(entries), len(broken)+1, names(entries))
	}
	for _, e := range entries {
		why, isBroken := broken[e.ID]
		switch {
		case !isBroken:
			if e.Err != nil || e.Workspace.Name != "good" {
				t.Errorf("the good workspace: %v", e.Err)
			}
		case e.Err == nil || !strings.Contains(e.Err.Error(), why):
			t.Errorf("an entry that is %s: %v", why, e.Err)
		case e.Workspace.ID != e.ID:
			t.Errorf("an entry that is %s has ID %q", why, e.Workspace.ID)
		}
		if got, err := s.Resolve(string(e.ID)); err != nil || got != e.ID {
			t.Errorf("Resolve(%s) = %s, %v", e.ID, got, err)
		}
		if _, err := s.Load(e.ID); (err != nil) != isBroken {
			t.Errorf("Load of an entry that is %q: %v", why, err)
		}
	}
	if _, err := Open(s.Root); err != nil {
		t.Errorf("Open with all that: %v", err)
	}
	if again := list(t, s); len(again) != len(entries) {
		t.Errorf("Open removed something: %d entries", len(again))
	}
}

// What a user puts into workspace.json by hand is checked as if it were new (F59, F74).
func TestEditedByHand(t *testing.T) {
	s := newStore(t)
	for name, change := range map[string]func(m map[string]any){
		"name is a path":     func(m map[string]any) { m["name"] = "../canary" },
		"name has escapes":   func(m map[string]any) { m["name"] = "x\x1b[2J" },
		"id is a path":       func(m map[string]any) { m["id"] = "../canary" },
		"id is another":      func(m map[string]any) { m["id"] = string(vm.NewID()) },
		"image is a path":    func(m map[string]any) { m["image"] = "../../canary" },
		"mac is global":      func(m map[string]any) { m["mac"] = "00:11:22:33:44:55" },
		"mac is multicast":   func(m map[string]any) { m["mac"] = "03:11:22:33:44:55" },
		"format is unknown":  func(m map[string]any) { m["disk_format"] = "auto" },
		"cpus are too many":  func(m map[string]any) { m["cpus"] = 100000 },
		"memory is negative": func(m map[string]any) { m["memory_mib"] = -4096 },
		"home is too large":  func(m map[string]any) { m["home_mib"] = 1 << 50 },
		"kind has escapes":   func(m map[string]any) { m["clone_kind"] = "\x1b[31m" },
	} {
		ws := create(t, s, name)
		edit(t, s, ws.ID, change)
		_, err := s.Load(ws.ID)
		if err == nil {
			t.Errorf("%s: it was loaded", name)
			continue
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%s: the message has control characters: %q", name, err)
		}
	}
	ws := create(t, s, "form")
	edit(t, s, ws.ID, func(m map[string]any) { m["name"] = "e\u0301" })
	if got, err := s.Load(ws.ID); err != nil || got.Name != "\u00e9" {
		t.Errorf("a name in form D: %+q, %v", got.Name, err)
	}
}

func TestCopiedByHand(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "original")
	from := s.Root.Workspace(string(ws.ID)).Config()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	copyTo := func(change func(string) string) vm.ID {
		id := vm.NewID()
		dir := s.Root.Workspace(string(id))
		if err := errors.Join(os.Mkdir(string(dir), 0o700), os.WriteFile(dir.Config(), []byte(change(string(data))), 0o600)); err != nil {
			t.Fatal(err)
		}
		edit(t, s, id, func(m map[string]any) {
			if m["id"] != string(ws.ID) {
				m["id"] = string(id)
			}
		})
		return id
	}
	plain := copyTo(func(s string) string { return s })
	edited := copyTo(func(s string) string {
		return strings.NewReplacer(string(ws.ID), "to be replaced", "original", "copy").Replace(s)
	})
	check := func(when string) {
		t.Helper()
		if _, err := s.Load(plain); err == nil || !strings.Contains(err.Error(), "copied by hand") {
			t.Errorf("%s: a plain copy: %v", when, err)
		}
		if _, err := s.Load(edited); err == nil || !strings.Contains(err.Error(), "copied by hand") {
			t.Errorf("%s: a copy with an ID of its own: %v", when, err)
		}
		if got, err := s.Load(ws.ID); err != nil || got.MAC != ws.MAC {
			t.Errorf("%s: the original: %v", when, err)
		}
	}
	check("with the index")
	// Without it the older one has the address.
	edit(t, s, edited, func(m map[string]any) { m["created"] = noon.Add(time.Hour).Format(time.RFC3339) })
	if err := os.Remove(s.Root.MACs()); err != nil {
		t.Fatal(err)
	}
	check("without the index")
	if _, err := Open(s.Root); err != nil {
		t.Fatal(err)
	}
	check("with the index rebuilt")
	// An address of its own makes the copy a workspace.
	edit(t, s, edited, func(m map[string]any) { m["mac"] = "02:00:00:aa:bb:cc" })
	if _, err := s.Load(edited); err != nil {
		t.Errorf("with an address of its own: %v", err)
	}
}

func TestResolve(t *testing.T) {
	entry := func(id, name string) Entry {
		return Entry{ID: vm.ID(id + strings.Repeat("0", 32-len(id))), Workspace: vm.Workspace{Name: vm.Name(name)}}
	}
	entries := []Entry{
		entry("aaaa1", "web"), entry("aaaa2", "Web server"), entry("beef", "cafe"), entry("cafe1", "Caf\u00e9"),
		entry("dddd", ""), entry("eeee1", "twin"), entry("eeee2", "twin"), entry("ffff", "beef1"),
	}
	entries[4].Err = errors.New("broken")
	for _, c := range []struct {
		ref, want string // want: the ID's beginning, or a kind
		says      string // in error or hint
	}{
		{string(entries[0].ID), "aaaa1", ""},
		{"web", "aaaa1", ""},
		{"WEB", "aaaa1", ""},
		{"web SERVER", "aaaa2", ""},
		{"caf\u00e9", "cafe1", ""},
		{"CAFE\u0301", "cafe1", ""},
		{"cafe", "beef", ""}, // a name comes before a prefix
		{"cafe1", "cafe1", ""},
		{"CAFE10", "cafe1", ""},
		{"dddd", "dddd", ""}, // damaged, but it has an ID
		{"beef", "beef", ""},
		{"beef1", "ffff", ""},
		{"ffff000000", "ffff", ""},
		{"aaaa", "usage", `aaaa10000000 ("web") or aaaa20000000 ("Web server")`},
		{"twin", "usage", "eeee10000000"},
		{"", "usage", "named"},
		{"aaa", "not-found", "bromure-cli workspaces ls"},
		{"wev", "not-found", `"web"`},
		{"serve", "not-found", `"Web server"`},
		{"nothing like it", "not-found", ""},
		{string(entries[0].ID) + "0", "not-found", ""},
		{strings.Repeat("x", 1<<16), "not-found", ""},
		{"../canary", "not-found", ""},
		{"a\x1b[2Jb", "not-found", `a\x1b[2Jb`},
		{"\xff", "not-found", `\xff`},
	} {
		id, err := resolve(entries, c.ref)
		if err == nil {
			if !strings.HasPrefix(string(id), c.want) {
				t.Errorf("Resolve(%.50q) = %s, want %s", c.ref, id, c.want)
			}
			continue
		}
		if string(problem.KindOf(err)) != c.want || !strings.Contains(err.Error()+problem.HintOf(err), c.says) || len(err.Error()) > 1000 {
			t.Errorf("Resolve(%.50q): %.200v (%s); hint %s; want %s and %q", c.ref, err, problem.KindOf(err), problem.HintOf(err), c.want, c.says)
		}
		if problem.HintOf(err) == "" {
			t.Errorf("Resolve(%.50q) gives no hint", c.ref)
		}
	}
	many := make([]Entry, 40)
	for i := range many {
		many[i] = entry(fmt.Sprintf("abcd%02d", i), fmt.Sprint("n", i))
	}
	if _, err := resolve(many, "abcd"); err == nil || !strings.Contains(err.Error(), "35 others") {
		t.Errorf("forty candidates: %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"web", "wbe", 2}, {"same", "same", 0}} {
		if got := distance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestListIsSorted(t *testing.T) {
	s := newStore(t)
	for _, n := range []string{"b", "C", "a", "Ä"} {
		create(t, s, n)
	}
	if got := names(list(t, s)); !slices.Equal(got, []string{"a", "b", "C", "Ä"}) {
		t.Errorf("List = %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"0123456789abcdef0123456789abcdef","name":"x","mac":"02:00:00:00:00:01","cpus":1,"memory_mib":256,"home_mib":16,"created":"2026-12-01T12:00:00Z","x":{"y":[1]},"":0,"-":1}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"":1,"-":2,"Version":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ws, err := decode(data)
		if err != nil || ws.Check() != nil {
			return
		}
		out, err := encode(ws)
		if err != nil {
			return // too large
		}
		again, err := decode(out)
		if err != nil {
			t.Fatalf("decode(encode): %v\n%s", err, out)
		}
		if show(again) != show(ws) || len(again.Extra) != len(ws.Extra) {
			t.Errorf("%s became %s", data, out)
		}
	})
}
