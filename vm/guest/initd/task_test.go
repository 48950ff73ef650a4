package initd

import (
	"errors"
	"strings"
	"testing"
)

func TestTask(t *testing.T) {
	sentinel := errors.New("no")
	if err := begin(func() error { return sentinel }).wait(); err != sentinel {
		t.Error(err)
	}
	ok := begin(func() error { return nil })
	if err := errors.Join(ok.wait(), ok.wait()); err != nil {
		t.Error(err)
	}
	var m map[string]int
	if err := begin(func() error { m["x"]++; return nil }).wait(); err == nil || !strings.Contains(err.Error(), "nil map") {
		t.Errorf("a panic became %v", err)
	}
}
