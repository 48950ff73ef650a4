//go:build imagebuild

package build

import (
	"context"
	"testing"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/problem"
)

// TestRealBuild builds an image of this host's distribution twice, with "go test -tags imagebuild -timeout 30m": it needs
// mmdebstrap, the package sources and minutes.
func TestRealBuild(t *testing.T) {
	var first images.Ref
	for range 2 {
		dir := t.TempDir() // another directory: nothing of the place may get in
		began := time.Now()
		ref, err := Run(context.Background(), Options{ImagesDir: dir, Progress: func(p Progress) {
			t.Logf("%6.1f s  %s %s", time.Since(began).Seconds(), p.Step, p.Note)
		}})
		if err != nil {
			t.Fatalf("%v (%s)", err, problem.HintOf(err))
		}
		if first == "" {
			first = ref
		}
		if ref != first {
			t.Errorf("built twice from the same packages: %s and %s", first, ref)
		}
	}
}
