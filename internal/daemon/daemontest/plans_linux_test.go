package daemontest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"bromure.io/tui/vm/store"
)

var update = flag.Bool("update", false, "write the golden plans anew")

// What depends on file system and clock; column widths depend on it, too.
var (
	sizes  = regexp.MustCompile(`\d+(\.\d+)? ([KMG]i)?B\b`)
	ages   = regexp.MustCompile(`just now|\d+ (minute|hour|day)s? ago`)
	spaces = regexp.MustCompile(`(\S)  +`)
)

// TestPlansFromTheFront holds the plans of images and of an uninstall, as the real daemon makes them and the real front prints
// them, to files; internal/cli has those of workspaces. -update writes them anew.
func TestPlansFromTheFront(t *testing.T) {
	p := TempPlace(t)
	for n, release := range []string{"1", "2", "3"} {
		if _, err := p.AddImage(release, Epoch().AddDate(-1, 0, n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"api server", "web"} {
		ws, err := p.AddWorkspace(store.NewWorkspace{Name: name})
		if err == nil {
			_, err = p.Fill(ws) // with a disk of the newest
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(string(p.Root), "mine.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	list, err := d.Images(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("images %v, %v", list, err)
	}
	for name, args := range map[string][]string{
		"image-rm":    {"image", "rm", string(list[2].Ref), "--plan"},
		"image-prune": {"image", "prune", "--plan"},
		"uninstall":   {"uninstall", "--plan"},
		"in-use":      {"image", "rm", string(list[0].Ref), "--plan"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := front(t, p, args...).CombinedOutput()
			if (err == nil) != (name != "in-use") {
				t.Errorf("%v", err)
			}
			got = sizes.ReplaceAll(got, []byte("SIZE"))
			got = ages.ReplaceAll(got, []byte("AGE"))
			got = spaces.ReplaceAll(got, []byte("$1  "))
			path := filepath.Join("testdata", "plans", name+".golden")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("it reads\n%s\nwant\n%s", got, want)
			}
		})
	}
}
