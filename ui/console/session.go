// Package console is the panel of a console: `bromure-cli vm attach` in a pseudo-terminal, drawn through a terminal emulator. It is
// the only room of the front that starts a program.
//
// Everything that comes out of the pty is hostile: it goes into the emulator only, and what is drawn are its cells (draw.go).
// What the emulator answers goes back only if it says nothing that somebody chose (replies.go). The goroutines belong to the
// session; a panic in one of them comes out of [Session.Wait], so that the front's own guard restores the terminal.
package console

import (
	"fmt"
	"os"
	"os/exec"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
)

// Session is a program in a pseudo-terminal with its screen. Its methods may be called from any goroutine.
type Session struct {
	Name string // of the console

	cmd   *exec.Cmd
	pty   *os.File
	input chan []byte   // for the program
	dirty chan struct{} // something has changed

	mu         sync.Mutex // of the screen
	screen     Emulator
	cols, rows int
	back       int
	ended      string
	fault      any

	inMu   sync.Mutex // of the input, which the screen's answers need while the screen is locked
	closed bool       // nothing can be sent any more
}

// inputQueue is how many keys wait for a program that does not read; further ones are lost, as in any terminal.
const inputQueue = 256

// Start runs a program in a terminal of that size.
func Start(name string, argv, env []string, cols, rows int) (*Session, error) {
	cols, rows = max(2, cols), max(1, rows)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
	if err != nil {
		return nil, fmt.Errorf("open the console %q: %w", name, err)
	}
	s := &Session{
		Name: name, cmd: cmd, pty: f, input: make(chan []byte, inputQueue), dirty: make(chan struct{}, 1),
		screen: NewEmulator(cols, rows), cols: cols, rows: rows,
	}
	go s.guard(s.read)
	go s.guard(s.write)
	go s.guard(s.answer)
	return s, nil
}

func (s *Session) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			s.mu.Lock()
			s.fault = r
			s.mu.Unlock()
			s.touch()
		}
	}()
	f()
}

func (s *Session) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// read feeds the screen until the program ends.
func (s *Session) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.pty.Read(buf)
		if n > 0 {
			s.mu.Lock()
			s.screen.Write(buf[:n])
			s.mu.Unlock()
			s.touch()
		}
		if err != nil {
			break
		}
	}
	defer s.pty.Close()
	code := "it ended"
	if err := s.cmd.Wait(); err != nil {
		code = "it ended: " + err.Error()
	}
	s.endInput()
	s.mu.Lock()
	s.ended = code
	s.screen.Close()
	s.mu.Unlock()
	s.touch()
}

// answer passes on what the terminal answers to queries.
func (s *Session) answer() {
	for r := range s.screen.Replies() {
		s.send(r)
	}
}

func (s *Session) endInput() {
	s.inMu.Lock()
	defer s.inMu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.input)
	}
}

func (s *Session) write() {
	for p := range s.input {
		if _, err := s.pty.Write(p); err != nil {
			return
		}
	}
}

// send queues bytes for the program.
func (s *Session) send(p []byte) {
	s.inMu.Lock()
	defer s.inMu.Unlock()
	if s.closed || len(p) == 0 {
		return
	}
	select {
	case s.input <- p:
	default:
	}
}

// Wait returns when the screen has changed or the program has ended; it is false when nothing more will come.
func (s *Session) Wait() bool {
	<-s.dirty
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		panic(s.fault)
	}
	return s.ended == ""
}

// Ended says why nothing comes any more; empty: it lives.
func (s *Session) Ended() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Press sends a key. Any key but those that scroll ends scrolling back.
func (s *Session) Press(msg tea.KeyPressMsg) {
	s.mu.Lock()
	s.back = 0
	cursorKeys := s.screen.Mode(modeCursorKeys)
	s.mu.Unlock()
	s.send(encodeKey(msg.Key(), cursorKeys))
}

// Paste sends pasted text.
func (s *Session) Paste(text string) {
	s.mu.Lock()
	s.back = 0
	bracketed := s.screen.Mode(modePaste)
	s.mu.Unlock()
	s.send(encodePaste(text, bracketed))
}

// Scroll goes back by some lines, or forward again.
func (s *Session) Scroll(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = max(0, min(s.back+by, s.screen.History()))
}

// Resize gives it another size.
func (s *Session) Resize(cols, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cols, rows = max(2, cols), max(1, rows)
	if cols == s.cols && rows == s.rows {
		return
	}
	s.cols, s.rows = cols, rows
	s.screen.Resize(cols, rows)
	if s.ended == "" {
		_ = pty.Setsize(s.pty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}) // fails only when it has ended
	}
}

// View is the screen: its lines, how far it is scrolled back, and the cursor's place where it is seen.
func (s *Session) View() (lines []string, back int, cursor *tea.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = min(s.back, s.screen.History())
	lines = draw(s.screen, s.cols, s.rows, s.back)
	if x, y, shown := s.screen.Cursor(); shown && s.back == 0 && s.ended == "" && x < s.cols && y < s.rows {
		cursor = &tea.Position{X: max(0, x), Y: max(0, y)}
	}
	return lines, s.back, cursor
}

// Close hangs up. What runs in the guest's console goes on. The goroutines end with the program.
func (s *Session) Close() {
	s.endInput()
	_ = s.cmd.Process.Kill() // the front end only; one that has ended already is no matter
}
