package qemu

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/qemu/qmp"
)

func TestTranslate(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for in, want := range map[[2]string]vm.EventKind{
		{"SHUTDOWN", `{"guest": true, "reason": "guest-shutdown"}`}:                                    vm.GuestPowerOff,
		{"SHUTDOWN", `{"guest": true, "reason": "guest-reset"}`}:                                       vm.GuestReset,
		{"SHUTDOWN", `{"guest": true, "reason": "guest-panic"}`}:                                       vm.GuestPanic,
		{"SHUTDOWN", `{"guest": false, "reason": "host-qmp-quit"}`}:                                    "",
		{"SHUTDOWN", `{"guest": false, "reason": "host-signal"}`}:                                      "",
		{"RESET", `{"guest": true, "reason": "guest-reset"}`}:                                          vm.GuestReset,
		{"RESET", `{"guest": false, "reason": "host-qmp-system-reset"}`}:                               "",
		{"GUEST_PANICKED", `{"action": "pause"}`}:                                                      vm.GuestPanic,
		{"BLOCK_IO_ERROR", `{"action": "stop", "nospace": true, "reason": "No space left on device"}`}: vm.HostDiskFull,
		{"BLOCK_IO_ERROR", `{"action": "report", "nospace": false, "reason": "Input/output error"}`}:   "",
		{"STOP", ""}:            "",
		{"RESUME", ""}:          "",
		{"RESET", "7"}:          "",
		{"SHUTDOWN", `"x"`}:     "",
		{"NIC_RX_FILTER", "{}"}: "",
	} {
		ev, ok := translate(qmp.Event{Name: in[0], Data: json.RawMessage(in[1])}, now)
		if ok != (want != "") || ev.Kind != want || ok && !ev.At.Equal(now) {
			t.Errorf("%s: %+v, %v", in, ev, ok)
		}
	}
	at := now.Add(time.Hour)
	if ev, _ := translate(qmp.Event{Name: "GUEST_PANICKED", At: at}, now); !ev.At.Equal(at) {
		t.Errorf("QEMU's time is lost: %v", ev.At)
	}
}

// The firmware's own reset behind each reset is not another one.
func TestResetsAreCountedOnce(t *testing.T) {
	var r reporter
	start := time.Now()
	for i, c := range []struct {
		at    time.Duration
		guest bool
		told  bool
	}{
		{0, true, true}, {190 * time.Millisecond, true, false}, {sameReset - 1, true, false},
		{sameReset, true, true}, {sameReset + time.Millisecond, true, false},
		{time.Hour, false, false}, {time.Hour + time.Millisecond, true, false}, // the host's, and the firmware's
	} {
		e := qmp.Event{Name: "RESET", Data: fmt.Appendf(nil, `{"guest": %v}`, c.guest)}
		if _, got := r.report(e, start.Add(c.at)); got != c.told {
			t.Errorf("%d: reset after %v is told: %v", i, c.at, got)
		}
	}
}

// A full disk is told once, and again when it is full again.
func TestFullDiskIsToldOnce(t *testing.T) {
	var r reporter
	full := qmp.Event{Name: "BLOCK_IO_ERROR", Data: []byte(`{"action": "stop", "nospace": true}`)}
	for i, told := range []bool{true, false, false} {
		if _, ok := r.report(full, time.Now()); ok != told {
			t.Errorf("%d: told: %v", i, ok)
		}
	}
	r.report(qmp.Event{Name: "RESUME"}, time.Now())
	if _, ok := r.report(full, time.Now()); !ok {
		t.Error("not told after it went on")
	}
}

// However many events come, nothing blocks and the last one is there.
func TestEventsKeepTheLast(t *testing.T) {
	e := newEvents()
	for i := range 10 * maxEvents {
		e.send(vm.Event{Note: fmt.Sprint(i)})
	}
	e.close()
	e.close()
	e.send(vm.Event{Note: "late"})
	n, last := 0, ""
	for ev := range e.ch {
		n, last = n+1, ev.Note
	}
	if n != maxEvents || last != fmt.Sprint(10*maxEvents-1) {
		t.Errorf("%d events, the last is %q", n, last)
	}
}
