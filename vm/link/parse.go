package link

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// parseExitStatus reads an exit-status, RFC 4254, section 6.10. A process has 8 bits.
func parseExitStatus(b []byte) (int, error) {
	var p struct{ Code uint32 }
	if err := ssh.Unmarshal(b, &p); err != nil || p.Code > 255 {
		return 0, errors.New("exit-status: malformed")
	}
	return int(p.Code), nil
}

// parseExitSignal reads an exit-signal. A name that is no signal's counts as code 255.
func parseExitSignal(b []byte) (guest.Exit, error) {
	var p struct {
		Name          string
		Core          bool
		Message, Lang string
	}
	if err := ssh.Unmarshal(b, &p); err != nil {
		return guest.Exit{}, errors.New("exit-signal: malformed")
	}
	n, ok := guest.SignalNumber(p.Name)
	if !ok {
		return guest.Exit{Code: 255}, nil
	}
	return guest.Exit{Code: 128 + n, Signal: guest.SignalName(n)}, nil
}

// CallError is a call that the guest refused or failed at.
type CallError struct {
	Method guest.Method
	Msg    string // the guest's word, cleaned
}

func (e *CallError) Error() string { return fmt.Sprintf("%s in the guest: %s", e.Method, e.Msg) }

// parseReply reads a [guest.CallReply] into result, which may be nil.
func parseReply(method guest.Method, b []byte, result any) error {
	if len(b) > guest.MaxCall {
		return fmt.Errorf("%s in the guest: the reply is larger than %d bytes", method, guest.MaxCall)
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		return fmt.Errorf("%s in the guest: read the reply: %w", method, cleaned(err))
	}
	if reply.Error != "" {
		return &CallError{method, guest.Clean(reply.Error, maxText)}
	}
	if result == nil || len(reply.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fmt.Errorf("%s in the guest: read the result: %w", method, cleaned(err))
	}
	return nil
}
