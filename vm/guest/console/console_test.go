package console

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bromure.io/tui/vm/guest"
)

func TestReplay(t *testing.T) {
	tests := []struct {
		name, printed, replayed string
		modes                   screen
	}{
		{name: "text", printed: "one\r\ntwo\r\n$ ", replayed: "one\r\ntwo\r\n$ "},
		{name: "colour", printed: "\x1b[1;31mred\x1b[m\r\n", replayed: "\x1b[1;31mred\x1b[m\r\n"},
		{name: "title", printed: "\x1b]0;title\a$ ", replayed: "\x1b]0;title\a$ "},
		{name: "bell", printed: "a\ab", replayed: "ab"},
		{name: "questions", printed: "a\x1b[c\x1b[>c\x1b[6n\x1b[?6n\x1b]11;?\a\x1b]10;?\x1b\\\x1b[?2026$p\x1b[>0q\x1bZ\x05\x1bP+q544e\x1b\\\x1b[?u\x1b[18tb", replayed: "ab"},
		{name: "clipboard and notification", printed: "a\x1b]52;c;eA==\a\x1b]9;hi\a\x1b]777;notify;a;b\ab", replayed: "ab"},
		{name: "printer", printed: "a\x1b[5ib", replayed: "ab"},
		{name: "cut sequence", printed: "a\x1b[12\x1b[1mb", replayed: "a\x1b[1mb"},
		{name: "cancelled sequence", printed: "a\x1b[12\x18b", replayed: "ab"},
		{name: "string with a line feed", printed: "a\x1b]0;x\ny\ab", replayed: "ab"},
		{name: "control within a sequence", printed: "a\x1b[3\r1mb", replayed: "a\r\x1b[31mb"},
		{name: "alternate screen, left", printed: "before\r\n\x1b[?1049hinside\x1b[?1049lafter\r\n", replayed: "before\r\nafter\r\n"},
		{name: "alternate screen, in it", printed: "before\r\n\x1b[?1049hinside", replayed: "before\r\n", modes: screen{alt: true}},
		{name: "erased scrollback", printed: "secret\r\n\x1b[H\x1b[2J\x1b[3J$ ", replayed: "$ "},
		{name: "reset", printed: "old\x1b[?2004h\x1bcnew", replayed: "new"},
		{name: "modes", printed: "\x1b[?2004h\x1b[?1;1006h\x1b[?25l\x1b=\x1b[>1u\x1b[>4;2m", replayed: "\x1b[?2004h\x1b[?1;1006h\x1b[?25l\x1b=\x1b[>1u\x1b[>4;2m",
			modes: screen{flipped: bits(2004, 1, 1006, 25), keypad: true, keys: []int{1}, other: 2}},
		{name: "long string", printed: "a\x1bP" + strings.Repeat("x", 3*maxString) + "\x1b\\b", replayed: "ab"},
		{name: "long control", printed: "a\x1b[" + strings.Repeat("1", 2*maxControl) + "mb", replayed: "a" + strings.Repeat("1", maxControl+1) + "mb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := NewSet(), newFake()
				first := &out{}
				cl := attach(t, s, f, first)
				f.print(tt.printed)
				synctest.Wait()
				// A control within a sequence may come before it; that means the same.
				printed := strings.Replace(tt.printed, "\x1b[3\r1m", "\r\x1b[31m", 1)
				if got := first.String(); got != fresh()+printed {
					t.Errorf("the client in use got %q", strings.TrimPrefix(got, fresh()))
				}
				cl.Detach()
				second := &out{}
				attach(t, s, f, second)
				synctest.Wait()
				got := strings.TrimPrefix(second.String(), softResetSequence)
				if tt.name == "long control" {
					// What is kept of nonsense is not important, as long as it is text.
					if strings.ContainsRune(strings.TrimSuffix(got, string(tt.modes.restore())), esc) {
						t.Errorf("replayed %q", got)
					}
				} else if want := tt.replayed + string(tt.modes.restore()); got != want {
					t.Errorf("replayed %q\n    want %q", got, want)
				}
				f.exit()
				s.Close()
			})
		})
	}
}

// Questions are put to one terminal: two would answer twice.
func TestQuestionsGoToTheClientInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		a, b := &out{}, &out{}
		ca := attach(t, s, f, a)
		attach(t, s, f, b)
		f.print("x\x1b[cy")
		synctest.Wait()
		if got := strings.TrimPrefix(a.String(), fresh()); got != "xy" {
			t.Errorf("the one behind got %q", got)
		}
		if got := strings.TrimPrefix(b.String(), fresh()); got != "x\x1b[cy" {
			t.Errorf("the one in use got %q", got)
		}
		if _, err := ca.Write([]byte("k")); err != nil {
			t.Fatal(err)
		}
		f.print("\x1b[c")
		synctest.Wait()
		if got := strings.TrimPrefix(a.String(), fresh()); got != "xy\x1b[c" {
			t.Errorf("who types got %q", got)
		}
		f.exit()
		s.Close()
	})
}

func TestHistoryBeginsBehindALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		cl := attach(t, s, f, &out{})
		line := "\x1b[32m" + strings.Repeat("ü", 50) + "\x1b[m\r\n"
		for range 2 * HistorySize / len(line) {
			f.print(line)
		}
		synctest.Wait()
		cl.Detach()
		o := &out{}
		attach(t, s, f, o)
		synctest.Wait()
		got := strings.TrimSuffix(strings.TrimPrefix(o.String(), softResetSequence), string((&screen{}).restore()))
		if len(got) < HistorySize-2*len(line) || strings.ReplaceAll(got, line, "") != "" {
			t.Errorf("%d bytes, beginning with %q", len(got), got[:60])
		}
		f.exit()
		s.Close()
	})
}

// A client that takes nothing holds the program up briefly; then the program goes on, and the client
// gets the recent state when it wakes up.
func TestStalledClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		o := &out{gate: make(chan struct{})}
		cl := attach(t, s, f, o)
		begin := time.Now()
		chunk := strings.Repeat("0123456789\r\n", 1000)
		for range 200 {
			f.print(chunk)
		}
		f.print("the end\r\n")
		if d := time.Since(begin); d < stall || d > 2*stall {
			t.Errorf("the program was held up for %v", d)
		}
		close(o.gate)
		synctest.Wait()
		got := o.String()
		if !strings.Contains(got, "some output was left out") || !strings.HasSuffix(got, "the end\r\n"+string((&screen{}).restore())) {
			t.Errorf("it got %d bytes, ending with %q", len(got), got[max(0, len(got)-300):])
		}
		if len(got) > 3*maxQueue {
			t.Errorf("it got %d bytes", len(got))
		}
		f.exit()
		<-cl.Done()
		if exit, ok := cl.Exit(); !ok || exit.Code != 7 {
			t.Errorf("exit %v, %v", exit, ok)
		}
		s.Close()
	})
}

// A slow client does not slow down a fast one.
func TestSlowClientBesideAFastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		slow, fast := &out{gate: make(chan struct{})}, &out{}
		attach(t, s, f, slow)
		attach(t, s, f, fast)
		begin := time.Now()
		chunk := strings.Repeat("0123456789\r\n", 1000)
		for range 200 {
			f.print(chunk)
		}
		synctest.Wait()
		if d := time.Since(begin); d != 0 {
			t.Errorf("held up for %v", d)
		}
		if got := fast.String(); got != fresh()+strings.Repeat(chunk, 200) {
			t.Errorf("the fast one got %d bytes", len(got))
		}
		close(slow.gate)
		f.exit()
		s.Close()
	})
}

func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		a := attach(t, s, f, &out{})
		b, err := s.Attach("main", guest.Size{Cols: 100, Rows: 50}, &out{}, f.start)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Attach("main", guest.Size{}, &out{}, f.start); err != nil { // one without a size changes nothing
			t.Fatal(err)
		}
		_, _ = a.Write([]byte("x"))
		b.Resize(guest.Size{Cols: 1 << 20, Rows: -1})
		b.Detach()
		want := []guest.Size{{Cols: 100, Rows: 50}, {Cols: 80, Rows: 24}, {Cols: guest.MaxCells}, {Cols: 80, Rows: 24}}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.sizes) != len(want) {
			t.Fatalf("sizes %v, want %v", f.sizes, want)
		}
		for i := range want {
			if f.sizes[i] != want[i] {
				t.Errorf("sizes %v, want %v", f.sizes, want)
			}
		}
		f.exit()
		go s.Close()
	})
}

func TestRepaintOnTheAlternateScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		cl := attach(t, s, f, &out{})
		f.print("\x1b[?1049h")
		cl.Detach()
		synctest.Wait()
		attach(t, s, f, &out{})
		time.Sleep(2 * jiggle)
		f.mu.Lock()
		got := f.sizes
		f.mu.Unlock()
		if len(got) != 2 || got[0].Rows != 23 || got[1].Rows != 24 {
			t.Errorf("sizes %v", got)
		}
		f.exit()
		s.Close()
	})
}

// stubborn is a program that does not read.
type stubborn struct {
	*fake
	closed chan struct{}
}

func TestProgramThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		p := stubborn{f, make(chan struct{})}
		cl, err := s.Attach("main", guest.Size{}, &out{}, func() (Program, string, error) { return p, "", nil })
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan error)
		go func() {
			_, err := cl.Write(make([]byte, 3*maxInput))
			wrote <- err
		}()
		synctest.Wait()
		f.print("still here") // output goes on
		cl.Detach()
		if err := <-wrote; !errors.Is(err, ErrDetached) {
			t.Errorf("write: %v", err)
		}
		f.exit()
		s.Close()
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := NewSet(), newFake()
		for range maxClients {
			attach(t, s, f, &out{})
		}
		if _, err := s.Attach("main", guest.Size{}, &out{}, f.start); err == nil {
			t.Error("too many clients")
		}
		f.exit()
		synctest.Wait()
		var all []*fake
		for i := range maxConsoles {
			f := newFake()
			all = append(all, f)
			cl, err := s.Attach(strings.Repeat("x", i+1), guest.Size{}, &out{}, f.start)
			if err != nil {
				t.Fatal(err)
			}
			cl.Detach()
		}
		g := newFake()
		if _, err := s.Attach("one more", guest.Size{}, &out{}, g.start); err == nil {
			t.Error("too many consoles")
		}
		all[3].exit() // nobody saw its end; its place is taken first
		synctest.Wait()
		if _, err := s.Attach("one more", guest.Size{}, &out{}, g.start); err != nil {
			t.Error(err)
		}
		g.exit()
		for i, f := range all {
			if i != 3 {
				f.exit()
			}
		}
		s.Close()
		if _, err := s.Attach("late", guest.Size{}, &out{}, g.start); err == nil {
			t.Error("attached after the end")
		}
	})
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{"a\x1b[1mb", "\x1b]0;t\a", "\x1bP1$r\x1b\\", "\x1b[?1049h\x1b[?1049l", "\x1b[>1u\x1b[<u\x1b[=5;2u", "\x1b\x1b[", "\x1b[;;;;m\x05", "\x1b_G\x1b[m"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		at = min(max(at, 0), len(s))
		// However the output is cut into reads, the client in use gets the same bytes, and every later client the same ones.
		collect := func(parts ...string) (all, kept string, p parser) {
			for _, part := range parts {
				p.feed([]byte(part), func(b []byte, k kind) {
					if len(b) == 0 {
						t.Fatal("an empty piece")
					}
					all += string(b)
					if k == plain {
						kept += string(b)
					}
				})
			}
			return all, kept, p
		}
		all, kept, p := collect(s)
		all2, kept2, _ := collect(s[:at], s[at:])
		if all != all2 || kept != kept2 {
			t.Fatalf("cut at %d: %q and %q, %q and %q", at, all, all2, kept, kept2)
		}
		if len(p.buf) > maxString+1 || len(p.screen.keys) > maxKeyStack {
			t.Fatalf("%d bytes held, %d keys", len(p.buf), len(p.screen.keys))
		}
		// What is kept asks nothing, however often it is read again.
		again, kept3, _ := collect(kept)
		if again != kept3 {
			t.Fatalf("kept %q holds something that is not kept: %q", kept, kept3)
		}
		_ = p.screen.restore()
	})
}
