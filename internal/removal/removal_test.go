package removal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// owner is a workspace that is a directory of files: Reset removes disk.img, Delete all of it.
type owner struct {
	root layout.Root
	used bool
}

const subject = "ws"

func (o *owner) Draft(_ context.Context, v verb.Verb, id string) (Draft, error) {
	dir := filepath.Join(string(o.root), "workspaces", id)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Draft{}, problem.Wrap(problem.NotFound, err, "no longer exists", "")
	}
	var inv []verb.Item
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return Draft{}, err
		}
		inv = append(inv, verb.Item{Owner: "workspace", Kind: e.Name(), Path: e.Name(), Identity: Identity(fi)})
	}
	d := Draft{Plan: verb.Plan{Verb: v, Subject: verb.Subject{Kind: "workspace", ID: id, Name: "name"}, Seen: verb.Fingerprint(inv)}}
	for _, it := range inv {
		if v == verb.Delete || it.Path == "disk.img" {
			d.Plan.Losses = append(d.Plan.Losses, it)
			d.Moves = append(d.Moves, Move{From: "workspaces/" + id + "/" + it.Path, Identity: it.Identity})
		}
	}
	if v == verb.Delete {
		fi, err := os.Lstat(dir)
		if err != nil {
			return Draft{}, err
		}
		d.Moves, d.After = []Move{{From: "workspaces/" + id, Identity: Identity(fi)}}, []string{"after"}
	}
	return d, nil
}

func (o *owner) Hold(context.Context, verb.Verb, string) (func(), error) {
	if o.used {
		return nil, problem.New(problem.Refused, "in use", "")
	}
	return func() {}, nil
}

type fixture struct {
	*Remover
	o     *owner
	after int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root := layout.Root(t.TempDir())
	f := &fixture{o: &owner{root: root}}
	f.Remover = f.remover(root)
	if err := f.Ready(); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"workspaces/ws/disk.img": "disk", "workspaces/ws/home.img": "home", "workspaces/ws/logs/serial.log": "x",
		"workspaces/other/disk.img": "theirs", "keep/me": "precious", "settings.json": "{}",
	} {
		path := filepath.Join(string(root), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fixture) remover(root layout.Root) *Remover {
	return &Remover{
		Root:  root,
		Owner: func(verb.Verb) (Owner, error) { return f.o, nil },
		After: map[string]func(string) error{"after": func(string) error { f.after++; return nil }},
		Now:   time.Now,
		Log:   slog.New(slog.DiscardHandler),
	}
}

// tree lists everything below the data root but the trash's own reserve.
func (f *fixture) tree(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(string(f.Root), func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(string(f.Root), p)
		if err != nil || d.IsDir() || strings.HasSuffix(rel, reserveName) {
			return err
		}
		files[rel] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func do(t *testing.T, f *fixture, v verb.Verb) (verb.Plan, error) {
	t.Helper()
	p, err := f.Plan(t.Context(), v, subject)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Do(t.Context(), p.ID)
	return p, err
}

// The removed set equals the named set.
func TestRemovesWhatItNames(t *testing.T) {
	for _, v := range []verb.Verb{verb.Reset, verb.Delete} {
		t.Run(string(v), func(t *testing.T) {
			f := newFixture(t)
			before := f.tree(t)
			p, err := do(t, f, v)
			if err != nil {
				t.Fatal(err)
			}
			after := f.tree(t)
			for path := range before {
				named := false
				for _, l := range p.Losses {
					at := filepath.Join("workspaces/ws", l.Path)
					named = named || path == at || strings.HasPrefix(path, at+"/")
				}
				if _, stays := after[path]; stays == named {
					t.Errorf("%s: named %v, still there %v", path, named, stays)
				}
			}
			for path := range after {
				if _, ok := before[path]; !ok {
					t.Errorf("%s has come", path)
				}
			}
		})
	}
}

// Field case F75: links are removed and never followed, and a workspace that is itself a link is refused.
func TestLinks(t *testing.T) {
	f := newFixture(t)
	keep := filepath.Join(string(f.Root), "keep")
	for _, at := range []string{"workspaces/ws/link", "workspaces/ws/logs/link"} {
		if err := os.Symlink(keep, filepath.Join(string(f.Root), at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := do(t, f, verb.Delete); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(keep, "me")); err != nil {
		t.Errorf("what a link pointed to: %v", err)
	}

	f = newFixture(t)
	dir := filepath.Join(string(f.Root), "workspaces/ws")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../workspaces/other", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, f, verb.Reset); err == nil {
		t.Error("the directory of the workspace is a link and was followed")
	}
	if _, err := os.Stat(filepath.Join(string(f.Root), "workspaces/other/disk.img")); err != nil {
		t.Errorf("the other workspace's disk: %v", err)
	}
}

func TestChangedMeanwhile(t *testing.T) {
	f := newFixture(t)
	p, err := f.Plan(t.Context(), verb.Delete, subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(f.Root), "workspaces/ws/new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := f.tree(t)
	_, err = f.Do(t.Context(), p.ID)
	changed, ok := errors.AsType[*Changed](err)
	if !ok || problem.KindOf(err) != problem.Refused {
		t.Fatalf("error %v", err)
	}
	if !maps.Equal(before, f.tree(t)) {
		t.Error("something was removed by a plan that was out of date")
	}
	if len(changed.New.Losses) != len(p.Losses)+1 {
		t.Errorf("the new plan names %d things", len(changed.New.Losses))
	}
	if _, err := f.Do(t.Context(), changed.New.ID); err != nil {
		t.Errorf("the new plan: %v", err)
	}
}

// Field case F70: two fronts that confirm the same plan do it once, and one that comes late hears that it is done.
func TestConfirmedTwice(t *testing.T) {
	f := newFixture(t)
	p, err := f.Plan(t.Context(), verb.Reset, subject)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = f.Do(t.Context(), p.ID) })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else if problem.KindOf(err) != problem.Refused {
			t.Errorf("error %v", err)
		}
	}
	if done != 1 {
		t.Errorf("done %d times", done)
	}
}

func TestRefusals(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Do(t.Context(), "nonsense"); problem.KindOf(err) != problem.NotFound {
		t.Errorf("an unknown plan: %v", err)
	}
	p, err := f.Plan(t.Context(), verb.Delete, subject)
	if err != nil {
		t.Fatal(err)
	}
	f.o.used = true
	if _, err := f.Do(t.Context(), p.ID); problem.KindOf(err) != problem.Refused {
		t.Errorf("in use: %v", err)
	}
	f.o.used = false
	// Deleted and made again under the same name: the plan is of the old one.
	p, err = f.Plan(t.Context(), verb.Delete, subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(string(f.Root), "workspaces/ws")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Do(t.Context(), p.ID); problem.KindOf(err) != problem.NotFound {
		t.Errorf("gone: %v", err)
	}
}

// cut is what the process's end looks like from inside.
type cut struct{}

// However early or late a removal is cut short, the next daemon finds everything as before, or finishes it.
func TestCutShortAnywhere(t *testing.T) {
	for _, v := range []verb.Verb{verb.Reset, verb.Delete} {
		for n := 1; ; n++ {
			f := newFixture(t)
			before := f.tree(t)
			p, err := f.Plan(t.Context(), v, subject)
			if err != nil {
				t.Fatal(err)
			}
			at := ""
			func() {
				seen := 0
				restore := failpoint.Set(func(name string) {
					if seen++; seen == n {
						at = name
						panic(cut{})
					}
				})
				defer restore()
				defer func() {
					if r := recover(); r != nil && r != (cut{}) {
						panic(r)
					}
				}()
				_, err = f.Do(t.Context(), p.ID)
			}()
			if at == "" {
				if err != nil || n < 4 {
					t.Fatalf("%s: uncut after %d points: %v", v, n-1, err)
				}
				break
			}
			next := f.remover(f.Root)
			if err := next.Recover(); err != nil {
				t.Fatalf("%s cut at point %d (%s): %v", v, n, at, err)
			}
			// The journal decides: until it has its name nothing has happened, from then on everything will.
			decided := !strings.HasSuffix(at, journalName+" begun") && !strings.HasSuffix(at, journalName+" written")
			after := slices.Sorted(maps.Keys(f.tree(t)))
			want := slices.Collect(maps.Keys(before))
			want = slices.DeleteFunc(want, func(path string) bool {
				return decided && (v == verb.Delete && strings.HasPrefix(path, "workspaces/ws/") || path == "workspaces/ws/disk.img")
			})
			slices.Sort(want)
			if !slices.Equal(after, want) {
				t.Errorf("%s cut at point %d (%s): left %v, want %v", v, n, at, after, want)
			}
			if done := f.after > 0; done != (decided && v == verb.Delete) {
				t.Errorf("cut at point %d (%s): what follows the removal was done: %v", n, at, done)
			}
		}
	}
}

// A damaged or foreign journal is reported and nothing is removed for it.
func TestBadJournals(t *testing.T) {
	for name, body := range map[string]string{
		"garbage":     "}{",
		"no version":  `{"plan":{"id":"%s"},"moves":[{"from":"keep"}]}`,
		"outside":     `{"version":1,"plan":{"id":"%s"},"moves":[{"from":"../../etc"}]}`,
		"other plan":  `{"version":1,"plan":{"id":"x"},"moves":[{"from":"keep"}]}`,
		"other thing": `{"version":1,"plan":{"id":"%s"},"moves":[{"from":"keep","identity":"0:0"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			dir := f.dir("p1")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(body, "%s") {
				body = fmt.Sprintf(body, "p1")
			}
			if err := os.WriteFile(filepath.Join(dir, journalName), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			err := f.Recover()
			if (err == nil) != (name == "other thing") {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(filepath.Join(string(f.Root), "keep/me")); err != nil {
				t.Errorf("what it named: %v", err)
			}
		})
	}
}

// A removal that could not be finished waits while its subject is in use again.
func TestRecoverWaitsForWhatIsInUse(t *testing.T) {
	f := newFixture(t)
	p, err := f.Plan(t.Context(), verb.Reset, subject)
	if err != nil {
		t.Fatal(err)
	}
	restore := failpoint.Set(func(name string) {
		if name == "removal: journal written" {
			panic(cut{})
		}
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = f.Do(t.Context(), p.ID)
	}()
	restore()
	before := f.tree(t)
	next := f.remover(f.Root)
	f.o.used = true
	if err := next.Recover(); err == nil || !strings.Contains(err.Error(), "waits") {
		t.Errorf("in use: %v", err)
	}
	if !maps.Equal(before, f.tree(t)) {
		t.Error("something was removed of what is in use")
	}
	f.o.used = false
	if err := next.Recover(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(string(f.Root), "workspaces/ws/disk.img")); err == nil {
		t.Error("it was not finished")
	}
}
