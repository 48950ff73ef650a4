package daemontest

import (
	"runtime"
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
	t.Log("\n" + Table(results))
}
