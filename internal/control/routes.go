package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathHealth, s.health)
	mux.HandleFunc("GET "+wire.PathWatch, s.watch)
	mux.HandleFunc("POST "+wire.PathWorkspaces, s.create)
	mux.HandleFunc("GET "+wire.PathWorkspace, s.workspace)
	mux.HandleFunc("POST "+wire.PathPlan, s.plan)
	mux.HandleFunc("POST "+wire.PathDo, s.do)
	mux.HandleFunc("POST "+wire.PathLease, s.lease)
	mux.HandleFunc("GET "+wire.PathLogs, s.logs)
	mux.HandleFunc("POST "+wire.PathAttach, s.attach)
	mux.HandleFunc("POST "+wire.PathForward, s.forward)
	mux.HandleFunc("GET "+wire.PathPorts, s.ports)
	mux.HandleFunc("GET "+wire.PathDoctor, s.doctor)
	mux.HandleFunc("GET "+wire.PathImages, s.images)
	mux.HandleFunc("POST "+wire.PathVerify, s.verify)
	mux.HandleFunc("POST "+wire.PathShutdown, s.shutdown)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, problem.New(problem.NotFound, fmt.Sprintf("no route %s %q", r.Method, r.URL.Path),
			"Another version of this program may have it; see docs/control-socket.md."))
	})
	return mux
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.svc.Health()) }

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.following(r)
	defer cancel()
	once := r.URL.Query().Get("once") == "1"
	lines := newLines(w)
	for snap := range s.svc.Watch(ctx) {
		if snap.Workspaces == nil {
			snap.Workspaces = []wire.Workspace{}
		}
		if lines.write(snap) != nil || once {
			return
		}
	}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var c wire.Create
	if err := readJSON(w, r, &c); err != nil {
		writeError(w, err)
		return
	}
	if err := checkCreate(c); err != nil {
		writeError(w, err)
		return
	}
	answer(w)(s.svc.Create(r.Context(), c))
}

// checkCreate holds what is known to make no sense before a service looks at it.
func checkCreate(c wire.Create) error {
	if c.Name != "" {
		if _, err := vm.ParseName(c.Name); err != nil {
			return problem.Wrap(problem.Usage, err, "", "")
		}
	}
	if c.Image != "" {
		if _, err := images.ParseRef(c.Image); err != nil {
			return problem.Wrap(problem.Usage, err, "", "`image ls` lists the images.")
		}
	}
	if c.MemoryMiB < 0 || c.CPUs < 0 || c.HomeMiB < 0 {
		return problem.New(problem.Usage, "sizes of a workspace must not be negative", "")
	}
	return nil
}

func (s *Server) workspace(w http.ResponseWriter, r *http.Request) {
	ref, err := refOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	answer(w)(s.svc.Workspace(r.Context(), ref))
}

func (s *Server) ports(w http.ResponseWriter, r *http.Request) {
	ref, err := refOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	ports, err := s.svc.Ports(r.Context(), ref)
	if ports == nil {
		ports = []guest.Port{}
	}
	answer(w)(ports, err)
}

func (s *Server) doctor(w http.ResponseWriter, r *http.Request) {
	answer(w)(s.svc.Doctor(r.Context(), r.URL.Query().Get("fresh") == "1"))
}

func (s *Server) images(w http.ResponseWriter, r *http.Request) {
	list, err := s.svc.Images(r.Context())
	if list == nil {
		list = []images.Manifest{}
	}
	answer(w)(list, err)
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	ref := r.PathValue("ref")
	if ref == wire.Newest {
		ref = ""
	} else if _, err := images.ParseRef(ref); err != nil {
		writeError(w, problem.Wrap(problem.Usage, err, "", "`image ls` lists the images."))
		return
	}
	s.operate(w, func(report func(wire.Progress)) (wire.Progress, error) {
		ref, err := s.svc.VerifyImage(r.Context(), ref, report)
		return wire.Progress{Image: string(ref)}, err
	})
}

func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	var d wire.Do
	err := readJSON(w, r, &d)
	if err == nil {
		err = checkDo(d)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	s.operate(w, func(report func(wire.Progress)) (wire.Progress, error) {
		return s.svc.Do(r.Context(), d, report)
	})
}

func (s *Server) plan(w http.ResponseWriter, r *http.Request) {
	var p wire.PlanRequest
	err := readJSON(w, r, &p)
	if err == nil {
		err = checkPlan(p)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	answer(w)(s.svc.Plan(r.Context(), p))
}

func checkPlan(p wire.PlanRequest) error {
	row, ok := verb.Find(p.Verb)
	switch {
	case !ok || !row.Removes:
		return problem.New(problem.Usage, fmt.Sprintf("%q is no verb that removes something", p.Verb), "")
	case row.Noun == "workspace":
		return wire.CheckRef(p.Subject)
	case p.Verb == verb.ImageRm:
		if _, err := images.ParseRef(p.Subject); err != nil {
			return problem.Wrap(problem.Usage, err, "", "`image ls` lists the images.")
		}
	}
	return nil
}

// doVerbs are the verbs that [Service.Do] takes.
func doVerbs() []verb.Verb {
	return []verb.Verb{verb.Start, verb.Stop, verb.Kill, verb.Reboot, verb.Keep, verb.ImageBuild}
}

func checkDo(d wire.Do) error {
	if d.Plan != "" {
		if d.Verb != "" || d.Workspace != "" {
			return problem.New(problem.Usage, "a plan says itself what is done, and to what", "")
		}
		return nil
	}
	v := verb.Verb(d.Verb)
	if !slices.Contains(doVerbs(), v) {
		return problem.New(problem.Usage, fmt.Sprintf("unknown verb %q", d.Verb), fmt.Sprintf("Known verbs: %v.", doVerbs()))
	}
	if d.Timeout < 0 {
		return problem.New(problem.Usage, "a timeout must not be negative", "")
	}
	if v == verb.ImageBuild {
		return nil
	}
	return wire.CheckRef(d.Workspace)
}

// lease holds a throw-away workspace for a front, as long as the front holds the connection.
func (s *Server) lease(w http.ResponseWriter, r *http.Request) {
	ref, err := refOf(r)
	var end func(bool)
	if err == nil {
		end, err = s.svc.Lease(r.Context(), ref)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := s.following(r)
	defer cancel()
	if newLines(w).write(struct{}{}) == nil {
		<-ctx.Done()
	}
	end(s.quit.Err() == nil)
}

func (s *Server) shutdown(w http.ResponseWriter, r *http.Request) {
	var req wire.Shutdown
	if err := readJSON(w, r, &req); err != nil {
		writeError(w, err)
		return
	}
	s.operate(w, func(report func(wire.Progress)) (wire.Progress, error) {
		return wire.Progress{}, s.svc.Shutdown(r.Context(), req, report)
	})
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	kind := layout.LogKind(r.PathValue("kind"))
	ref := r.PathValue("ws")
	var err error
	switch {
	case kind == wire.DaemonLog:
		ref = ""
	case slices.Contains(layout.LogKinds, kind):
		err = wire.CheckRef(ref)
	default:
		err = problem.New(problem.Usage, fmt.Sprintf("unknown log %q", kind), fmt.Sprintf("The logs of a workspace are %v.", layout.LogKinds))
	}
	q := wire.LogQuery{Follow: r.URL.Query().Get("follow") == "1", Tail: -1}
	if t := r.URL.Query().Get("tail"); t != "" && err == nil {
		if q.Tail, err = strconv.Atoi(t); err != nil {
			err = problem.Wrap(problem.Usage, err, "read the number of lines", "")
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := s.following(r)
	defer cancel()
	log, err := s.svc.Logs(ctx, ref, kind, q)
	if err != nil {
		writeError(w, err)
		return
	}
	defer log.Close()
	defer context.AfterFunc(ctx, func() { log.Close() })()
	w.Header().Set("Content-Type", "application/octet-stream")
	// An error in the middle can only be told by cutting the answer: the front sees an unexpected EOF.
	if _, err := io.Copy(flushing{w}, log); err != nil && ctx.Err() == nil {
		panic(http.ErrAbortHandler)
	}
}

// refOf is the workspace in the path, which the router has unescaped once.
func refOf(r *http.Request) (string, error) {
	ref := r.PathValue("ws")
	return ref, wire.CheckRef(ref)
}

// readJSON decodes the body: one value, no field that is not known, so that a newer front's wish is never ignored.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(headerTimeout))
	data, err := io.ReadAll(r.Body)
	_ = rc.SetReadDeadline(time.Time{})
	if tooBig, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem.New(problem.Usage, fmt.Sprintf("the request has more than %d bytes", tooBig.Limit), "")
	}
	if err != nil {
		return problem.Wrap(problem.Usage, err, "read the request", "")
	}
	return decodeStrict(data, v)
}

func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return problem.Wrap(problem.Usage, err, "read the request", "")
	}
	if _, err := dec.Token(); err != io.EOF {
		return problem.New(problem.Usage, "the request has more than one JSON value", "")
	}
	return nil
}
