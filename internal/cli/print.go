package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"bromure.io/tui/internal/printable"
	"bromure.io/tui/internal/problem"
)

// line makes text of unknown origin fit for the terminal.
func line(s string) string { return printable.Line(s) }

// printJSON writes v for scripts. Control characters are escaped even where JSON would let them through.
func (a *app) printJSON(v any) error { return writeJSON(a.Out, v) }

func writeJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := w.Write(printable.JSON(buf.Bytes()))
	return err
}

// printError says what went wrong and what the user can do.
func (a *app) printError(err error, code int) {
	hint := problem.HintOf(err)
	if a.json() {
		_ = writeJSON(a.Err, struct {
			Error string       `json:"error"`
			Kind  problem.Kind `json:"kind"`
			Hint  string       `json:"hint,omitempty"`
			Exit  int          `json:"exit_code"`
		}{err.Error(), problem.KindOf(err), hint, code})
		return
	}
	fmt.Fprintf(a.Err, "%s: %s\n", a.Name, line(err.Error()))
	if hint != "" {
		fmt.Fprintf(a.Err, "  %s\n", strings.ReplaceAll(printable.Text(hint), "\n", "\n  "))
	}
}

// table writes rows in columns, aligned by the width that a terminal gives the text. head may be nil.
func table(w io.Writer, head []string, rows [][]string) error {
	all := rows
	if head != nil {
		all = append([][]string{head}, rows...)
	}
	if len(all) == 0 {
		return nil
	}
	width := make([]int, len(all[0]))
	for _, row := range all {
		for i := range row {
			row[i] = line(row[i])
			width[i] = max(width[i], ansi.StringWidth(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var l strings.Builder
		for i, cell := range row {
			l.WriteString(cell)
			if i < len(row)-1 {
				l.WriteString(strings.Repeat(" ", width[i]-ansi.StringWidth(cell)+3))
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fields writes "name: value" lines; an empty value is left out.
func fields(w io.Writer, pairs [][2]string) error {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(&b, "%-*s  %s\n", width+1, p[0]+":", line(p[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func isTerminal(f interface{ Fd() uintptr }) bool { return term.IsTerminal(int(f.Fd())) }
