package qmp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian"}, "capabilities": ["oob"]}}` + "\r\n"

// server answers a client by script: each command it reads is given to answer, whose result is sent.
type server struct {
	t    *testing.T
	conn net.Conn
	wg   sync.WaitGroup
}

type request struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments"`
	ID        uint64          `json:"id"`
}

func serve(t *testing.T, answer func(request) string) (*server, net.Conn) {
	ours, theirs := net.Pipe()
	s := &server{t: t, conn: ours}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer ours.Close()
		if _, err := io.WriteString(ours, greeting); err != nil {
			return
		}
		for lines := bufio.NewScanner(ours); lines.Scan(); {
			var r request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("the client sent %q: %v", lines.Bytes(), err)
				return
			}
			out := answer(r)
			if r.Execute == "qmp_capabilities" && out == "" {
				out = ok(r)
			}
			if _, err := io.WriteString(ours, out); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { ours.Close(); s.wg.Wait() })
	return s, theirs
}

func ok(r request) string { return fmt.Sprintf(`{"return": {}, "id": %d}`+"\r\n", r.ID) }

func dial(t *testing.T, conn net.Conn, onEvent func(Event)) *Client {
	t.Helper()
	c, err := New(t.Context(), conn, onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRun(t *testing.T) {
	_, conn := serve(t, func(r request) string {
		switch r.Execute {
		case "query-uuid":
			return fmt.Sprintf(`{"return": {"UUID": "u-1"}, "id": %d}`+"\n", r.ID)
		case "echo":
			return fmt.Sprintf(`{"return": %s, "id": %d}`+"\n", r.Arguments, r.ID)
		case "refuse":
			return fmt.Sprintf(`{"error": {"class": "GenericError", "desc": "no"}, "id": %d}`+"\n", r.ID)
		}
		return ""
	})
	c := dial(t, conn, nil)
	if v := c.Version().QEMU; v.Major != 7 || v.Minor != 2 || v.Micro != 22 {
		t.Errorf("version %+v", v)
	}
	var uuid struct{ UUID string }
	if err := c.Run(t.Context(), "query-uuid", nil, &uuid); err != nil || uuid.UUID != "u-1" {
		t.Errorf("query-uuid: %+v, %v", uuid, err)
	}
	var back struct{ N int }
	if err := c.Run(t.Context(), "echo", map[string]int{"N": 7}, &back); err != nil || back.N != 7 {
		t.Errorf("echo: %+v, %v", back, err)
	}
	err := c.Run(t.Context(), "refuse", nil, nil)
	if refused, isRefusal := errors.AsType[*Error](err); !isRefusal || refused.Class != "GenericError" || err.Error() != "refuse: no" {
		t.Errorf("refuse: %v", err)
	}
}

// Replies may come in any order, with others in between that nobody asked for.
func TestRepliesFindTheirCommand(t *testing.T) {
	var held []request
	_, conn := serve(t, func(r request) string {
		if r.Execute != "hold" {
			return ""
		}
		held = append(held, r)
		if len(held) < 8 {
			return ""
		}
		out := `{"return": {}, "id": 999999}` + "\n"
		for i := len(held) - 1; i >= 0; i-- {
			out += fmt.Sprintf(`{"return": %s, "id": %d}`+"\n", held[i].Arguments, held[i].ID)
		}
		return out
	})
	c := dial(t, conn, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var back struct{ N int }
			if err := c.Run(t.Context(), "hold", map[string]int{"N": i}, &back); err != nil || back.N != i {
				t.Errorf("command %d: got %d, %v", i, back.N, err)
			}
		})
	}
	wg.Wait()
}

func TestEventsKeepTheirOrder(t *testing.T) {
	_, conn := serve(t, func(r request) string {
		if r.Execute != "go" {
			return ""
		}
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `{"event": "E%d", "data": {"i": %d}, "timestamp": {"seconds": 1700000000, "microseconds": %d}}`+"\n", i, i, i)
		}
		return b.String() + ok(r)
	})
	var got []Event
	c := dial(t, conn, func(e Event) { got = append(got, e) })
	if err := c.Run(t.Context(), "go", nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(got) != 100 { // they came before the reply
		t.Fatalf("%d events", len(got))
	}
	for i, e := range got {
		if e.Name != fmt.Sprintf("E%d", i) || !e.At.Equal(time.Unix(1700000000, int64(i)*1000)) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

func TestDeadline(t *testing.T) {
	_, conn := serve(t, func(r request) string { return "" })
	c := dial(t, conn, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := c.Run(ctx, "silence", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a late reply must not end the connection: %v", err)
	}
}

// A QEMU whose main loop hangs takes no bytes either.
func TestDeadlineOfAWrite(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = io.WriteString(ours, greeting)
		line, _ := bufio.NewReader(io.LimitReader(ours, 200)).ReadBytes('\n')
		var r request
		_ = json.Unmarshal(line, &r)
		_, _ = io.WriteString(ours, ok(r))
	}()
	c := dial(t, theirs, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := c.Run(ctx, "stop", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestHandshakeFails(t *testing.T) {
	for name, sent := range map[string]string{
		"nothing":       "",
		"garbage":       "SSH-2.0-OpenSSH\r\n",
		"cut":           `{"QMP":`,
		"an event":      `{"event": "STOP"}` + "\n",
		"endless line":  strings.Repeat("x", MaxLine+1),
		"empty object":  "{}\n",
		"wrong version": `{"QMP": {"version": "seven"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.WriteString(ours, sent); ours.Close() }()
			if c, err := New(t.Context(), theirs, nil); err == nil {
				c.Close()
				t.Error("no error")
			}
		})
	}
}

func TestHandshakeDeadline(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, theirs, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestEndFailsWhatWaits(t *testing.T) {
	for name, last := range map[string]string{
		"end of file": "",
		"garbage":     "}{\n",
		"refusal":     `{"error": {"class": "GenericError", "desc": "bad JSON"}}` + "\n",
		"long line":   strings.Repeat(" ", MaxLine+1),
	} {
		t.Run(name, func(t *testing.T) {
			var s *server
			s, conn := serve(t, func(r request) string {
				if r.Execute != "last" {
					return ""
				}
				_, _ = io.WriteString(s.conn, last)
				s.conn.Close()
				return ""
			})
			c := dial(t, conn, nil)
			if err := c.Run(t.Context(), "last", nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
			<-c.Done()
			if err := c.Run(t.Context(), "after", nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(greeting + `{"return": {}, "id": 1}` + "\n" + `{"event": "SHUTDOWN", "data": {"guest": true}}` + "\n"))
	f.Add([]byte(greeting + `{"return": {}, "id": 1}` + "\n" + `{"error": {}, "id": 2}` + "\n"))
	f.Add([]byte(`{"QMP": null}` + "\n"))
	f.Add([]byte(greeting + `{"id": 1, "return": null}` + "\n\n\r\n[]\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		go func() { _, _ = ours.Write(sent); ours.Close() }()
		c, err := New(t.Context(), theirs, func(e Event) {
			if e.Name == "" {
				t.Error("an event without a name")
			}
		})
		if err != nil {
			return
		}
		var out any
		_ = c.Run(t.Context(), "query-status", nil, &out)
		<-c.Done()
		_ = c.Close()
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"return": {"UUID": "x"}, "id": 18446744073709551615}`))
	f.Add([]byte(`{"event": "RESET", "timestamp": {"seconds": -1, "microseconds": -1}}`))
	f.Add([]byte(`{"event": "X", "timestamp": {"seconds": 9223372036854775807, "microseconds": 9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err == nil && m.Event != "" {
			_ = m.event()
		}
		r := bufio.NewReaderSize(bytes.NewReader(line), 64)
		for {
			if _, err := readLine(r); err != nil {
				return
			}
		}
	})
}
