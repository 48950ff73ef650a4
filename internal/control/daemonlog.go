package control

import (
	"fmt"
	"io"
	"os"
	"strings"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/printable"
	"bromure.io/tui/internal/problem"
)

const (
	shownLines = 10
	shownBytes = 8 << 10
)

// withLog adds to err what the daemon wrote to its log since it had the size from.
func withLog(err error, root layout.Root, from int64) error {
	said := lastLines(root.DaemonLog(), from)
	if said == "" {
		return err
	}
	hint := problem.HintOf(err)
	if hint != "" {
		hint += "\n"
	}
	return &problem.Problem{Kind: problem.KindOf(err), Err: err, Hint: fmt.Sprintf("%sIts log (%s) ends with\n%s", hint, root.DaemonLog(), said)}
}

// lastLines is the end of a file, made fit for a terminal.
func lastLines(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return ""
	}
	if from > fi.Size() { // the log was rotated meanwhile
		from = 0
	}
	from = max(from, fi.Size()-shownBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, shownBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	lines = lines[max(0, len(lines)-shownLines):]
	for i := range lines {
		lines[i] = "  " + printable.Line(lines[i])
	}
	return strings.TrimRight(strings.Join(lines, "\n"), " \n")
}
