package controltest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm/guest"
)

func execOf(argv ...string) wire.Attach { return wire.Attach{Exec: &guest.Exec{Argv: argv}} }

// contractExec: streams are apart and binary, codes and signals come through, closing ends everything.
func contractExec(t *testing.T, s control.Service) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mustCreate(t, s, wire.Create{Name: "w"})
	if _, err := s.Do(ctx, wire.Do{Verb: "start", Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}
	attach := func(a wire.Attach) control.Stream {
		t.Helper()
		st, err := s.Attach(ctx, "w", a)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}

	data := bytes.Repeat([]byte("\x00\xff\r\n"), 100_000)
	st := attach(execOf("sh", "-c", "tee /dev/stderr; exit 7"))
	go func() {
		_, _ = st.Stdin().Write(data)
		st.Stdin().Close()
	}()
	out, errs, code, err := drain(st)
	if err != nil || code != 7 || !bytes.Equal(out, data) || !bytes.Equal(errs, data) {
		t.Errorf("both streams: exit %d, %v, %d and %d bytes", code, err, len(out), len(errs))
	}
	for range 2 { // twice does no harm
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}

	st = attach(execOf("sh", "-c", "echo ready; exec sleep 1000"))
	if _, err := io.ReadFull(st.Stdout(), make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := st.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if _, _, code, err := drain(st); err != nil || code != 143 {
		t.Errorf("after SIGTERM: exit %d, %v", code, err)
	}
	st.Close()

	tty := execOf("sh", "-c", "stty size; read line; stty size")
	tty.Exec.TTY, tty.Exec.Size, tty.Exec.Term = true, guest.Size{Cols: 91, Rows: 31}, "xterm"
	st = attach(tty)
	first := make([]byte, len("31 91\r\n"))
	if _, err := io.ReadFull(st.Stdout(), first); err != nil || string(first) != "31 91\r\n" {
		t.Fatalf("size: %q, %v", first, err)
	}
	if err := st.Resize(guest.Size{Cols: 120, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(st.Stdin(), "\n")
	if out, _, code, err := drain(st); err != nil || code != 0 || !strings.Contains(string(out), "50 120") {
		t.Errorf("after a resize: %q, exit %d, %v", out, code, err)
	}
	st.Close()

	// Close unblocks whoever reads or waits.
	st = attach(execOf("sleep", "1000"))
	over := make(chan struct{})
	go func() { _, _, _, _ = drain(st); close(over) }()
	st.Close()
	select {
	case <-over:
	case <-ctx.Done():
		t.Error("closing a stream leaves its reader blocked")
	}
}

func drain(st control.Stream) (out, errs []byte, code int, err error) {
	var wg sync.WaitGroup
	wg.Go(func() { out, _ = io.ReadAll(st.Stdout()) })
	wg.Go(func() { errs, _ = io.ReadAll(st.Stderr()) })
	wg.Wait()
	code, err = st.Wait()
	return out, errs, code, err
}
