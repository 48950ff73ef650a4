package build

import (
	"context"
	"os"
	"runtime"
	"testing"

	"bromure.io/tui/images/store"
	"bromure.io/tui/internal/problem"
)

// TestUbuntuBuild builds the image that the published one will be. It takes minutes and needs Ubuntu's archive and keys.
func TestUbuntuBuild(t *testing.T) {
	if _, err := makePlan(os.DirFS("/"), "ubuntu", "noble", runtime.GOARCH); err != nil {
		t.Skipf("%v: %s", err, problem.HintOf(err))
	}
	if os.Getenv("BROMURE_TEST_IMAGE_BUILD") == "" {
		t.Skip("this host has Ubuntu's keys: set BROMURE_TEST_IMAGE_BUILD=1 to build an image")
	}
	dir := t.TempDir()
	ref, err := Run(context.Background(), Options{ImagesDir: dir, Distro: "ubuntu", Suite: "noble", Progress: func(p Progress) { t.Log(p.Step, p.Note) }})
	if err != nil {
		t.Fatalf("%v (%s)", err, problem.HintOf(err))
	}
	m, err := store.Store{Dir: dir}.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	if m.Distro != "ubuntu" || m.Release != "24.04" || m.Suite != "noble" || len(m.Packages) < 100 {
		t.Errorf("%s %s (%s) with %d packages", m.Distro, m.Release, m.Suite, len(m.Packages))
	}
}
