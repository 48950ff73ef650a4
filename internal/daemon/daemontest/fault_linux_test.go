package daemontest

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestEveryStep ends the daemon with kill -9 at every step of every operation that changes the disk. With -v it prints the
// table of docs/reliability.md. With -short, or under the race detector, it takes only some of the steps.
func TestEveryStep(t *testing.T) {
	every := everyUsually
	if testing.Short() {
		every = max(every, 5)
	}
	var results []Result
	for _, op := range Operations() {
		r, err := Inject(op, every, 2*runtime.NumCPU())
		if err != nil {
			t.Error(err)
			continue
		}
		for _, loss := range r.Losses {
			t.Error(loss)
		}
		results = append(results, r)
	}
	table := Table(results)
	t.Log("\n" + table)
	if every > 1 || t.Failed() {
		return
	}
	const doc = "../../../docs/reliability.md"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```\n")
	at := slices.IndexFunc(parts, func(s string) bool { return strings.HasPrefix(s, "operation ") || s == "table\n" })
	switch {
	case at < 0:
		t.Errorf("%s has no table", doc)
	case parts[at] == table:
	case *update:
		parts[at] = table
		if err := os.WriteFile(doc, []byte(strings.Join(parts, "```\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has another table; -update writes this one", doc)
	}
}
