//go:build linux

package sshd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// callRequest is [guest.CallRequest] with parameters that are not decoded yet.
type callRequest struct {
	Method guest.Method    `json:"method"`
	Params json.RawMessage `json:"params"`
}

// call answers one call. The channel's end cancels it.
func (c *conn) call(ctx context.Context, nch ssh.NewChannel) {
	req, err := parseCall(nch.ExtraData())
	if err != nil {
		_ = nch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.wg.Go(func() {
		ssh.DiscardRequests(reqs) // ends with the channel
		cancel()
	})
	b := encodeReply(c.srv.answer(ctx, req))
	_, _ = ch.Write(b)
}

// answer calls who knows; a panic there must not end the server, the only way into the guest.
func (s *Server) answer(ctx context.Context, req callRequest) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("call panicked", "method", string(req.Method), "panic", p)
			err = fmt.Errorf("%s: internal error in the guest program", req.Method)
		}
	}()
	if req.Method == guest.MethodConsoles {
		return s.Consoles(), nil
	}
	if s.cfg.Calls == nil {
		return nil, fmt.Errorf("%s: not known to this guest", req.Method)
	}
	return s.cfg.Calls(ctx, req.Method, req.Params)
}

func parseCall(b []byte) (callRequest, error) {
	var req callRequest
	if len(b) > guest.MaxRequest {
		return req, errors.New("call: too large")
	}
	if err := json.Unmarshal(b, &req); err != nil {
		return req, fmt.Errorf("call: %w", err)
	}
	if req.Method == "" || len(req.Method) > 64 {
		return req, errors.New("call: no method")
	}
	return req, nil
}

// encodeReply makes the one [guest.CallReply] that goes back, never larger than [guest.MaxCall].
func encodeReply(result any, err error) []byte {
	var reply guest.CallReply
	if err != nil {
		reply.Error = err.Error()
	} else {
		reply.Result = result
	}
	b, jerr := json.Marshal(reply)
	if jerr == nil && len(b) <= guest.MaxCall {
		return b
	}
	if jerr == nil {
		jerr = errors.New("the answer is too large")
	}
	b, _ = json.Marshal(guest.CallReply{Error: jerr.Error()}) // two strings: cannot fail
	return b
}
