package atomicfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// only fails the test unless dir has exactly these files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("%s has %q, want %q", dir, got, names)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for i, c := range []struct {
		data string
		mode os.FileMode
	}{{"one", 0o600}, {"", 0o600}, {strings.Repeat("x", 1<<20), 0o400}, {"two", 0o600}} {
		if err := Write(path, []byte(c.data), c.mode); err != nil {
			t.Fatal(i, err)
		}
		if got := content(t, path); got != c.data {
			t.Errorf("%d: %d bytes, want %d", i, len(got), len(c.data))
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != c.mode {
			t.Errorf("%d: mode %v, %v", i, fi.Mode(), err)
		}
		only(t, dir, "f")
	}
	t.Chdir(dir)
	if err := Write("relative", []byte("r"), 0o600); err != nil || content(t, filepath.Join(dir, "relative")) != "r" {
		t.Errorf("a relative path: %v", err)
	}
}

// Write replaces a name: a link under it is replaced and not followed.
func TestWriteReplacesLinks(t *testing.T) {
	dir := t.TempDir()
	precious, link := filepath.Join(dir, "precious"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(precious, []byte("p"), 0o600), os.Symlink(precious, link)); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content(t, precious) != "p" || content(t, link) != "new" {
		t.Error("Write went through a symbolic link")
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	taken := filepath.Join(dir, "taken") // a directory with something in it cannot be replaced
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Write(taken, []byte("d"), 0o600)
	if err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("over a directory: %v", err)
	}
	only(t, dir, "taken")
	if err := Write(filepath.Join(dir, strings.Repeat("n", 300)), nil, 0o600); err == nil {
		t.Error("a name that is too long was written")
	}
}

func TestCommitNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for i := range 2 {
		f, err := Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, i)
		err = f.CommitNew()
		if i == 0 && err != nil || i == 1 && !errors.Is(err, fs.ErrExist) {
			t.Errorf("CommitNew %d: %v", i, err)
		}
		f.Abort()
		if content(t, path) != "0" {
			t.Errorf("after CommitNew %d: %q", i, content(t, path))
		}
		only(t, dir, "f")
	}
	dangling := filepath.Join(dir, "g")
	if err := os.Symlink("nowhere", dangling); err != nil {
		t.Fatal(err)
	}
	f, err := Create(dangling, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CommitNew(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a dangling link: %v", err)
	}
	only(t, dir, "f", "g")
}

func TestBefore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	boom := errors.New("boom")
	for _, want := range []error{boom, nil} {
		f, err := Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.Before = func() error {
			if _, err := os.Lstat(path); err == nil {
				t.Error("the file has its name already")
			}
			return want
		}
		if err := f.Commit(); !errors.Is(err, want) {
			t.Errorf("Commit: %v, want %v", err, want)
		}
		if want != nil {
			only(t, dir)
		}
	}
	only(t, dir, "f")
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "f"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "never mind")
	f.Abort()
	f.Abort()
	only(t, dir)
}

// Readers see one whole content or another while many writers replace the file.
func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	block := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 10_000) }
	if err := Write(path, block(0), 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 20 {
				if err := Write(path, block(i), 0o600); err != nil {
					t.Error(err)
				}
				if err := Sweep(dir); err != nil { // never takes a file from a writer that lives
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		writers.Wait()
		close(done)
	}()
	for {
		if b := content(t, path); len(b) != 10_000 || strings.Trim(b, b[:1]) != "" {
			t.Errorf("a mixture of %d bytes", len(b))
		}
		select {
		case <-done:
			only(t, dir, "f")
			return
		default:
		}
	}
}

func TestMain(m *testing.M) {
	if path := os.Getenv("ATOMICFILE_TEST_PATH"); path != "" {
		f, err := Create(path, 0o600)
		fmt.Fprint(f, "half of the ")
		fmt.Println("half", err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// kill -9 in the middle of a write: the old content stays, and what is left over is swept, but only then.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ATOMICFILE_TEST_PATH="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if s, err := bufio.NewReader(out).ReadString('\n'); s != "half <nil>\n" {
		t.Fatal(s, err)
	}
	count := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if err := Sweep(dir); err != nil || count() != 2 {
		t.Errorf("a sweep while the writer lives: %v, %d files", err, count())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if count() != 2 || content(t, path) != "old" {
		t.Errorf("after kill -9: %d files, %q", count(), content(t, path))
	}
	if err := Sweep(dir); err != nil {
		t.Error(err)
	}
	only(t, dir, "f")
}

func TestSweepLeavesTheRest(t *testing.T) {
	dir := t.TempDir()
	names := []string{".f.tmp-1-0", ".hidden", "f", "f.tmp-1-0", "tmp-1"}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link, sub := filepath.Join(dir, ".l.tmp-1-0"), filepath.Join(dir, ".d.tmp-1-0")
	if err := errors.Join(os.Symlink("f", link), os.Mkdir(sub, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	only(t, dir, ".d.tmp-1-0", ".hidden", ".l.tmp-1-0", "f", "f.tmp-1-0", "tmp-1")
	if err := Sweep(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Sweep of nothing: %v", err)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("made elsewhere"), 0o600), os.Rename(other, f.Name()), f.Reopen()); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "made elsewhere" {
		t.Errorf("content %q", got)
	}
	only(t, dir, "f")
}
