package control

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
	"sync"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
)

// statusOf is the HTTP status of an error; a front reads the body and needs it not.
func statusOf(kind problem.Kind) int {
	switch kind {
	case problem.Usage:
		return http.StatusBadRequest
	case problem.NotFound:
		return http.StatusNotFound
	case problem.Refused:
		return http.StatusConflict
	case problem.Denied:
		return http.StatusForbidden
	case problem.Unreachable:
		return http.StatusBadGateway
	case problem.Unverified:
		return http.StatusUnprocessableEntity
	case problem.Missing, problem.Interrupted:
		return http.StatusServiceUnavailable
	case problem.DeadlineMiss:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

func writeError(w http.ResponseWriter, err error) {
	e := wire.FromError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(e.Kind))
	_ = json.NewEncoder(w).Encode(e) // fails only when the front is gone
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// answer returns a function that takes the two results of a call.
func answer(w http.ResponseWriter) func(v any, err error) {
	return func(v any, err error) {
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, v)
	}
}

// lines writes JSON values, a line each, and sends each on its way at once.
type lines struct {
	w     http.ResponseWriter
	begun bool
}

func newLines(w http.ResponseWriter) *lines { return &lines{w: w} }

func (l *lines) write(v any) error {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
	}
	if err := json.NewEncoder(l.w).Encode(v); err != nil {
		return err
	}
	return http.NewResponseController(l.w).Flush()
}

// flushing sends each Write on its way at once.
type flushing struct{ w http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}

// maxPending is how many reports wait for a front that does not read. Further ones are dropped: an
// operation never waits for a front that was suspended with ctrl-z.
const maxPending = 1024

// operate runs an operation and streams its reports, then its last word. An error before the first
// report is answered with its status; after it, it stands in the last line.
func (s *Server) operate(w http.ResponseWriter, op func(report func(wire.Progress)) (wire.Progress, error)) {
	var (
		mu      sync.Mutex
		pending []wire.Progress
		over    bool
		wake    = make(chan struct{}, 1)
		written = make(chan struct{})
		out     = newLines(w)
	)
	put := func(p wire.Progress, last bool) {
		mu.Lock()
		if !over && (last || len(pending) < maxPending) {
			pending = append(pending, p)
		}
		over = over || last
		mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(written)
		for range wake {
			mu.Lock()
			batch, end := pending, over
			pending = nil
			mu.Unlock()
			for _, p := range batch {
				// One that goes out alone, as the last and with an error, is a plain answer.
				if p.Error != nil && p.NewPlan == nil && !out.begun && len(batch) == 1 {
					writeError(w, p.Error)
					continue
				}
				if out.write(p) != nil {
					break // the front is gone; its context tells the operation
				}
			}
			if end {
				return
			}
		}
	}()
	defer func() { // a panic must not leave the writer behind, or the front without a word
		if r := recover(); r != nil {
			s.log.Error("panic in an operation", "value", r, "stack", string(debug.Stack()))
			put(wire.Progress{Done: true, Error: &wire.Error{Kind: problem.Failed, Msg: "internal error; the daemon's log has more"}}, true)
			<-written
		}
	}()
	last, err := op(func(p wire.Progress) {
		p.Done, p.Error = false, nil
		put(p, false)
	})
	last.Done, last.Error = true, wire.FromError(err)
	put(last, true)
	<-written
}
