package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sysinfo"
)

// call answers a call of the host.
func (s *server) call(_ context.Context, method guest.Method, params json.RawMessage) (any, error) {
	switch method {
	case guest.MethodHello:
		return s.system.Hello(s.booted.Load())
	case guest.MethodStats:
		return s.system.Stats()
	case guest.MethodPorts:
		return s.system.Ports(s.own()...)
	case guest.MethodClock:
		var c guest.Clock
		if err := decode(params, &c); err != nil {
			return nil, err
		}
		now, err := sysinfo.SetClock(c.Time)
		return guest.Clock{Time: now}, err
	case guest.MethodTrim:
		return s.system.Trim()
	case guest.MethodSync:
		return nil, s.system.Sync()
	case guest.MethodPowerOff:
		return nil, s.end(sysinfo.PowerOff, params)
	case guest.MethodReboot:
		return nil, s.end(sysinfo.Reboot, params)
	}
	return nil, fmt.Errorf("this guest has no call %q", method)
}

// end begins a shutdown. The server stays until its last moment, so the answer still goes out.
func (s *server) end(kind sysinfo.Kind, params json.RawMessage) error {
	var p guest.PowerOff
	if err := decode(params, &p); err != nil {
		return err
	}
	s.power.End(kind, p.Grace)
	return nil
}

func decode(params json.RawMessage, to any) error {
	if len(params) == 0 {
		return nil
	}
	if err := json.Unmarshal(params, to); err != nil {
		return fmt.Errorf("read the parameters of a call: %w", err)
	}
	return nil
}
