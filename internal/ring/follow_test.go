package ring

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func follow(t *testing.T, path string, tail int) *bufio.Reader {
	t.Helper()
	f, err := Follow(t.Context(), path, tail)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return bufio.NewReader(f)
}

func wantLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want+"\n" || err != nil {
		t.Fatalf("followed %q, %v, want %q", got, err, want)
	}
}

// Every line arrives once and in order, across many rotations, when the reader keeps up.
func TestFollowAcrossRotations(t *testing.T) {
	w, path := newRing(t, MinBytes)
	io.WriteString(w, "old\nolder\nlast\n")
	r := follow(t, path, 1)
	wantLine(t, r, "last")
	for i := range 500 {
		line := fmt.Sprintf("%d %s", i, strings.Repeat("f", i%200))
		fmt.Fprintln(w, line)
		if i%5 == 0 { // a few lines behind, never a whole ring
			for j := max(0, i-4); j <= i; j++ {
				wantLine(t, r, fmt.Sprintf("%d %s", j, strings.Repeat("f", j%200)))
			}
		}
	}
}

// A reader that is left far behind misses what the ring has dropped, and goes on with the rest in order.
func TestFollowLeftBehind(t *testing.T) {
	w, path := newRing(t, MinBytes)
	fmt.Fprintln(w, "line 0")
	r := follow(t, path, -1)
	wantLine(t, r, "line 0")
	const last = 5000
	for i := 1; i <= last; i++ {
		fmt.Fprintf(w, "line %d\n", i)
	}
	prev := 0
	for prev < last {
		s, err := r.ReadString('\n')
		var n int
		if _, scan := fmt.Sscanf(s, "line %d\n", &n); err != nil || scan != nil || n <= prev {
			t.Fatalf("after line %d came %q, %v", prev, s, err)
		}
		prev = n
	}
}

func TestFollowTail(t *testing.T) {
	w, path := newRing(t, MinBytes)
	for i := range 300 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	if _, err := os.Lstat(path + ".1"); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, path, -1)
	for _, tail := range []int{-1, 0, 1, 250, 10_000} {
		f, err := Follow(t.Context(), path, tail)
		if err != nil {
			t.Fatal(err)
		}
		want := all
		if tail >= 0 && tail < strings.Count(all, "\n") {
			lines := strings.SplitAfter(all, "\n")
			want = strings.Join(lines[len(lines)-1-tail:], "")
		}
		fmt.Fprintln(w, "end of", tail)
		want += fmt.Sprintln("end of", tail)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(f, got); err != nil || string(got) != want {
			t.Errorf("tail %d: %.80q …, %v, want %.80q …", tail, got, err, want)
		}
		f.Close()
		all = readAll(t, path, -1)
	}
}

func TestFollowEnds(t *testing.T) {
	w, path := newRing(t, MinBytes)
	fmt.Fprintln(w, "one")
	for name, end := range map[string]func(cancel context.CancelFunc, f io.Closer){
		"cancel": func(cancel context.CancelFunc, _ io.Closer) { cancel() },
		"close":  func(_ context.CancelFunc, f io.Closer) { f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, err := Follow(ctx, path, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r := bufio.NewReader(f)
			wantLine(t, r, "one")
			done := make(chan error)
			go func() {
				_, err := r.ReadByte() // waits: there is no more
				done <- err
			}()
			end(cancel, f)
			if err := <-done; err != io.EOF {
				t.Errorf("the waiting Read ended with %v", err)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the next Read ended with %v", err)
			}
		})
	}
}

// A ring that is made, removed and made again while it is followed, its directory too.
func TestFollowAppearing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "log")
	r := follow(t, path, -1)
	for i := range 3 {
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		w := reopen(t, path, MinBytes)
		fmt.Fprintln(w, "life", i)
		wantLine(t, r, fmt.Sprint("life ", i))
		w.Close()
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollowTruncated(t *testing.T) {
	w, path := newRing(t, MinBytes)
	fmt.Fprintln(w, "a long line before")
	r := follow(t, path, -1)
	wantLine(t, r, "a long line before")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(w, "after")
	wantLine(t, r, "after")
}

// Reading while another process writes as fast as it can, and is killed: what is read is always a piece of what was written.
func TestReadWhileWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RING_TEST_WRITE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		checkSequence(t, []byte(readAll(t, path, -1)))
		if n := onDisk(t, path); n > MinBytes+MinBytes/2 { // two sizes are not read at one moment
			t.Fatalf("%d bytes on disk", n)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	w := reopen(t, path, MinBytes)
	fmt.Fprintln(w, "next life")
	got := readAll(t, path, -1)
	if onDisk(t, path) > MinBytes || !strings.HasSuffix(got, "\nnext life\n") {
		t.Errorf("after kill -9: %q", got[max(0, len(got)-40):])
	}
}

// checkSequence wants increasing numbers, a line each; the first and the last line may be cut.
func checkSequence(t *testing.T, b []byte) {
	t.Helper()
	lines := bytes.Split(b, []byte("\n"))
	if len(lines) < 10 {
		t.Fatalf("only %d lines are kept: %q", len(lines), b)
	}
	prev := -1
	for _, l := range lines[1 : len(lines)-1] {
		var n int
		if _, err := fmt.Sscanf(string(l), "line %d", &n); err != nil || prev >= 0 && n != prev+1 {
			t.Fatalf("after %d came %q", prev, l)
		}
		prev = n
	}
}

func TestMain(m *testing.M) {
	if path := os.Getenv("RING_TEST_WRITE"); path != "" {
		w, err := Open(path, MinBytes)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for i := 0; ; i++ {
			fmt.Fprintf(w, "line %d\n", i)
			if i == 1000 {
				fmt.Println("writing")
			}
		}
	}
	os.Exit(m.Run())
}

func FuzzRing(f *testing.F) {
	f.Add([]byte("a line\nand another\n"), uint16(10))
	f.Add(bytes.Repeat([]byte("x"), 9000), uint16(3000))
	f.Fuzz(func(t *testing.T, data []byte, chunk uint16) {
		path := filepath.Join(t.TempDir(), "log")
		w, err := Open(path, MinBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for rest := data; len(rest) > 0; {
			n := min(len(rest), max(int(chunk), len(data)/64, 1))
			w.Write(rest[:n])
			rest = rest[n:]
		}
		r, err := Read(path, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if err != nil || !bytes.HasSuffix(data, got) || len(got) < min(len(data), MinBytes/2) || len(got) > MinBytes {
			t.Errorf("kept %d of %d bytes, %v", len(got), len(data), err)
		}
	})
}
