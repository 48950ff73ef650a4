//go:build linux

package sshd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/process"
)

// terminal is what a client asks for with a pty-req, RFC 4254, section 6.2.
type terminal struct {
	term  string
	size  guest.Size
	modes process.Modes
}

func parsePTY(b []byte) (terminal, error) {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if err := ssh.Unmarshal(b, &p); err != nil {
		return terminal{}, errors.New("pty-req: malformed request")
	}
	return terminal{
		term:  termName(p.Term),
		size:  guest.Size{Cols: cells(p.Cols), Rows: cells(p.Rows)},
		modes: process.ParseModes(p.Modes),
	}, nil
}

// parseWindow reads a window-change, RFC 4254, section 6.7.
func parseWindow(b []byte) (guest.Size, error) {
	var p struct{ Cols, Rows, Width, Height uint32 }
	if err := ssh.Unmarshal(b, &p); err != nil {
		return guest.Size{}, errors.New("window-change: malformed request")
	}
	return guest.Size{Cols: cells(p.Cols), Rows: cells(p.Rows)}, nil
}

func cells(n uint32) int { return int(min(n, guest.MaxCells)) }

// defaultTerm is the terminal of clients that do not say which they are.
const defaultTerm = "xterm-256color"

// termName is the value of TERM: it ends up in file names below terminfo(5)'s directories.
func termName(s string) string {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.+", r))
	}) {
		return defaultTerm
	}
	return s
}

// parseEnv reads an env request, RFC 4254, section 6.4. ok is false for variables that a client may not set: all but
// locale and looks, as Debian's sshd_config has it. What may change how programs are found and loaded
// comes from the guest and from [guest.Exec] only.
func parseEnv(b []byte) (name, value string, ok bool) {
	var p struct{ Name, Value string }
	if err := ssh.Unmarshal(b, &p); err != nil || len(p.Value) > 4096 || strings.IndexByte(p.Value, 0) >= 0 {
		return "", "", false
	}
	switch p.Name {
	case "LANG", "LANGUAGE", "COLORTERM", "NO_COLOR", "TZ":
		return p.Name, p.Value, true
	}
	rest, ok := strings.CutPrefix(p.Name, "LC_")
	if !ok || rest == "" || len(rest) > 32 || strings.ContainsFunc(rest, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
		return "", "", false
	}
	return p.Name, p.Value, true
}

// parseString reads the one string that exec, subsystem and signal requests consist of.
func parseString(b []byte) (string, error) {
	var p struct{ Value string }
	if err := ssh.Unmarshal(b, &p); err != nil {
		return "", errors.New("malformed request")
	}
	return p.Value, nil
}

func parseExec(b []byte) (guest.Exec, error) {
	var e guest.Exec
	if err := parseJSON(b, &e); err != nil {
		return e, fmt.Errorf("exec: %w", err)
	}
	if err := e.Check(); err != nil {
		return e, err
	}
	e.Size = e.Size.Clamp()
	e.Term = termName(e.Term)
	return e, nil
}

func parseConsole(b []byte) (guest.Console, error) {
	var c guest.Console
	if err := parseJSON(b, &c); err != nil {
		return c, fmt.Errorf("console: %w", err)
	}
	if err := c.Check(); err != nil {
		return c, err
	}
	c.Size = c.Size.Clamp()
	c.Term = termName(c.Term)
	return c, nil
}

func parseJSON(b []byte, v any) error {
	if len(b) > guest.MaxRequest {
		return errors.New("the request is too large")
	}
	return json.Unmarshal(b, v)
}
