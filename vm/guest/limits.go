package guest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxRequest bounds what the host sends in one SSH request, in bytes of JSON: [Exec], [Console] and
// [CallRequest]. An SSH packet may have 256 KiB, and a larger one would end the connection.
const MaxRequest = 128 << 10

// MaxCells bounds a terminal's width and height. Programs allocate by it.
const MaxCells = 4096

// Clamp is s with both sides between 0 and [MaxCells]; 0 means "not known".
func (s Size) Clamp() Size {
	return Size{Cols: min(max(s.Cols, 0), MaxCells), Rows: min(max(s.Rows, 0), MaxCells)}
}

// IsZero reports whether neither side of s is known.
func (s Size) IsZero() bool { return s.Cols <= 0 && s.Rows <= 0 }

// Check refuses what cannot be started. Both sides call it: the host for a clear error, the guest
// because the request came over a wire.
func (e Exec) Check() error {
	if len(e.Argv) == 0 && !e.Shell {
		return errors.New("exec: no command")
	}
	if e.Shell && len(e.Argv) > 1 {
		return fmt.Errorf("exec: a shell takes one command line, not %d", len(e.Argv))
	}
	if len(e.Argv) > 0 && e.Argv[0] == "" && !e.Shell {
		return errors.New("exec: the command is empty")
	}
	for _, a := range e.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return errors.New("exec: an argument contains a NUL byte")
		}
	}
	if strings.IndexByte(e.Dir, 0) >= 0 || strings.IndexByte(e.Term, 0) >= 0 {
		return errors.New("exec: the directory or the terminal contains a NUL byte")
	}
	return checkEnv(e.Env)
}

// Check refuses names that would not fit on a line, and commands that cannot be started.
func (c Console) Check() error {
	if c.Name == "" || len(c.Name) > 64 || !utf8.ValidString(c.Name) {
		return errors.New("console: a name has 1 to 64 bytes of UTF-8")
	}
	for _, r := range c.Name {
		if r != printable(r) || r == '/' {
			return fmt.Errorf("console: the name contains %q", r)
		}
	}
	return Exec{Argv: c.Argv, Shell: len(c.Argv) == 0, Term: c.Term, Env: c.Env}.Check()
}

// checkEnv refuses names that environ(7) cannot carry.
func checkEnv(env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return fmt.Errorf("environment: %q cannot be set", k)
		}
	}
	return nil
}

// Clean makes text that a guest sent fit for a message or a list: at most limit bytes, without controls,
// invisible format characters (they reorder and hide text) and line breaks.
func Clean(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	s = strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
	if cut {
		s += "…"
	}
	return s
}
