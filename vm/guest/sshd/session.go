//go:build linux

package sshd

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/console"
	"bromure.io/tui/vm/guest/login"
	"bromure.io/tui/vm/guest/process"
)

// session is a channel of type "session", RFC 4254, section 6: some requests that prepare, one that starts, and those to
// what runs. All requests are handled by one goroutine, in their order.
type session struct {
	conn *conn
	ch   ssh.Channel
	env  map[string]string // from env requests
	tty  *terminal         // from pty-req

	started bool
	run     program // nil until started
}

// program is what a session has started.
type program interface {
	resize(guest.Size) error
	signal(number int) error
	gone() // the client closed the channel
}

// maxEnv bounds the env requests of a session.
const maxEnv = 64

// serve handles the requests of the session until the channel is closed, by either side.
func (s *session) serve(reqs <-chan *ssh.Request) {
	for r := range reqs {
		before := s.started
		ok := s.request(r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if s.started && !before {
			// The reply goes out before the program can say anything.
			s.begin(r)
		}
	}
	if s.run != nil {
		s.run.gone()
	}
	s.ch.Close()
}

// request says whether r is granted. What starts a program is only checked here.
func (s *session) request(r *ssh.Request) bool {
	switch r.Type {
	case "env":
		name, value, ok := parseEnv(r.Payload)
		if !ok || s.started || len(s.env) >= maxEnv {
			return false
		}
		s.env[name] = value
		return true
	case "pty-req":
		t, err := parsePTY(r.Payload)
		if err != nil || s.started || s.tty != nil {
			return false
		}
		s.tty = &t
		return true
	case "window-change":
		size, err := parseWindow(r.Payload)
		if err != nil {
			return false
		}
		if s.run == nil {
			if s.tty != nil {
				s.tty.size = size
			}
			return s.tty != nil
		}
		return s.run.resize(size) == nil
	case "signal":
		name, err := parseString(r.Payload)
		n, known := guest.SignalNumber(name)
		return err == nil && known && s.run != nil && s.run.signal(n) == nil
	case "shell", "exec", "subsystem", guest.ExecRequestName, guest.ConsoleRequestName:
		if s.started {
			return false // one program a channel: RFC 4254, section 6.5
		}
		if r.Type == "subsystem" {
			if name, err := parseString(r.Payload); err != nil || name != "sftp" {
				return false
			}
		}
		s.started = true
		return true
	}
	// Refused on purpose: auth-agent-req@openssh.com and x11-req (nothing of the host's is reachable from a
	// workspace); the rest is not known.
	return false
}

// begin starts what r asks for. A failure is told as a program's: on standard error or by our own request, then
// by an exit status.
func (s *session) begin(r *ssh.Request) {
	var err error
	switch r.Type {
	case "shell":
		err = s.startExec(guest.Exec{Shell: true, Env: s.standardEnv()}, "")
	case "exec":
		var line string
		if line, err = parseString(r.Payload); err == nil {
			err = s.startExec(guest.Exec{Shell: true, Argv: []string{line}, Env: s.standardEnv()}, "")
		}
	case "subsystem":
		err = s.startExec(guest.Exec{Argv: s.conn.srv.cfg.SFTP}, "sftp")
	case guest.ExecRequestName:
		var e guest.Exec
		if e, err = parseExec(r.Payload); err == nil {
			if e.TTY {
				s.tty = &terminal{term: e.Term, size: e.Size}
			}
			err = s.startExec(e, "")
		}
	case guest.ConsoleRequestName:
		var c guest.Console
		if c, err = parseConsole(r.Payload); err == nil {
			err = s.attach(c)
		}
	}
	if err == nil {
		return
	}
	exit := guest.Exit{Code: guest.CannotRun}
	if se, ok := errors.AsType[*process.StartError](err); ok {
		exit.Code = se.Code
	}
	if strings.Contains(r.Type, "@") {
		_, _ = s.ch.SendRequest(guest.ExitErrorName, false, []byte(err.Error()))
	} else {
		fmt.Fprintf(s.ch.Stderr(), "bromure: %v\r\n", err)
	}
	s.finish(exit)
}

// standardEnv is what sshd(8) sets beyond the login environment: some prompts and scripts look for it.
func (s *session) standardEnv() map[string]string {
	env := maps.Clone(s.env)
	rh, rp, err1 := net.SplitHostPort(s.conn.ssh.RemoteAddr().String())
	lh, lp, err2 := net.SplitHostPort(s.conn.ssh.LocalAddr().String())
	if err1 == nil && err2 == nil {
		env["SSH_CLIENT"] = rh + " " + rp + " " + lp
		env["SSH_CONNECTION"] = rh + " " + rp + " " + lh + " " + lp
	}
	return env
}

// account is who the session runs as.
func (s *session) account(asRoot bool) (login.Account, error) {
	name := s.conn.user
	if asRoot {
		name = root
	}
	return s.conn.srv.etc.Lookup(name)
}

// spec turns e into something to start. name, where it is not empty, is what the program is called instead
// of its path in messages.
func (s *session) spec(e guest.Exec) (process.Spec, error) {
	etc := s.conn.srv.etc
	acc, err := s.account(e.Root)
	if err != nil {
		return process.Spec{}, err
	}
	extra := map[string]string{}
	sp := process.Spec{Account: acc, Dir: e.Dir, Cgroup: s.conn.srv.cfg.Cgroup}
	if s.tty != nil {
		sp.TTY, sp.Size, sp.Modes = true, s.tty.size, s.tty.modes
		sp.TTYGroup = acc.GID
		if g, ok := etc.GroupID("tty"); ok {
			sp.TTYGroup = g
		}
		extra["TERM"] = s.tty.term
		if !login.HasTerminfo(acc.Home, s.tty.term) {
			extra["TERM"] = defaultTerm // of a terminal that the guest does not know, programs use less than nothing
		}
	}
	env := etc.Environ(acc, s.conn.srv.cfg.Env, extra, e.Env)
	sp.Env = login.List(env)
	switch {
	case e.Shell && len(e.Argv) == 0:
		sp.Path, sp.Argv = acc.Shell, []string{"-" + filepath.Base(acc.Shell)}
	case e.Shell:
		sp.Path, sp.Argv = acc.Shell, []string{filepath.Base(acc.Shell), "-c", e.Argv[0]}
	default:
		path, found, runnable := login.LookPath(e.Argv[0], env)
		switch {
		case !found:
			return sp, &process.StartError{Code: guest.NotFound, Err: fmt.Errorf("start %q: no such program in %s", e.Argv[0], env["PATH"])}
		case !runnable:
			return sp, &process.StartError{Code: guest.CannotRun, Err: fmt.Errorf("start %q: %w", e.Argv[0], os.ErrPermission)}
		}
		sp.Path, sp.Argv = path, e.Argv
	}
	return sp, nil
}

func (s *session) startExec(e guest.Exec, argv0 string) error {
	sp, err := s.spec(e)
	if err != nil {
		return err
	}
	if argv0 != "" {
		sp.Argv = append([]string{argv0}, sp.Argv[1:]...)
	}
	p, err := process.Start(sp)
	if err != nil {
		return err
	}
	x := &executed{ch: s.ch, proc: p, left: make(chan struct{})}
	s.run = x
	s.conn.wg.Go(func() { s.finish(x.wait(&s.conn.wg)) })
	return nil
}

// attach attaches the channel to a console, which is made when there is none of that name.
func (s *session) attach(c guest.Console) error {
	client, err := s.conn.srv.consoles.Attach(c.Name, c.Size, s.ch, func() (console.Program, string, error) {
		s.tty = &terminal{term: c.Term, size: c.Size}
		sp, err := s.spec(guest.Exec{Argv: c.Argv, Shell: len(c.Argv) == 0, Env: c.Env})
		if err != nil {
			return nil, "", err
		}
		p, err := process.Start(sp)
		if err != nil {
			return nil, "", err
		}
		command := strings.Join(c.Argv, " ")
		if command == "" {
			command = sp.Path
		}
		return process.Terminal{Process: p}, command, nil
	})
	if err != nil {
		return err
	}
	a := attached{client, make(chan struct{})}
	s.run = a
	s.conn.wg.Go(func() { a.typeFrom(s.ch) })
	s.conn.wg.Go(func() {
		<-client.Done()
		if exit, ok := client.Exit(); ok {
			s.finish(exit)
		}
		s.ch.Close()
	})
	return nil
}

// finish reports the end and closes the channel, RFC 4254, section 6.10.
func (s *session) finish(exit guest.Exit) {
	_ = s.ch.CloseWrite()
	if exit.Signal != "" {
		name := exit.Signal
		if !standardSignal(name) {
			name += "@bromure.io"
		}
		_, _ = s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name          string
			Core          bool
			Message, Lang string
		}{Name: name}))
	} else {
		_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(exit.Code)}))
	}
	_ = s.ch.Close()
}

// standardSignal reports whether RFC 4254, section 6.10, lists the name.
func standardSignal(name string) bool {
	switch name {
	case "ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2":
		return true
	}
	return false
}
