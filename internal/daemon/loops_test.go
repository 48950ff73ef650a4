package daemon

import (
	"testing"
	"time"

	"bromure.io/tui/internal/problem"
)

// A clock that was set, or a host that slept, is told from one that simply went on (field case F78).
func TestJumped(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name string
		wall time.Duration // by how much the wall clock moves beyond what passes
		want bool
	}{
		{"it went on", 0, false},
		{"adjusted a little", 300 * time.Millisecond, false},
		{"slept for two minutes", 2 * time.Minute, true},
		{"set 26 hours ahead", 26 * time.Hour, true},
		{"set back", -time.Hour, true},
	} {
		// Add moves both readings; stripping one and moving the other is what a jump looks like.
		after := shift{now.Add(2 * time.Second), c.wall}
		if got := jumpedBy(now.Round(0), after.wall(), 2*time.Second); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if jumped(now, now.Add(5*time.Second)) {
		t.Error("time that passes is no jump")
	}
}

type shift struct {
	at time.Time
	by time.Duration
}

func (s shift) wall() time.Time { return s.at.Round(0).Add(s.by) }

func TestOptionsFromEnv(t *testing.T) {
	env := map[string]string{"BROMURE_BOOT_DEADLINE": "90s", "BROMURE_IDLE": "5m"}
	var o Options
	if err := o.FromEnv(func(k string) string { return env[k] }); err != nil {
		t.Fatal(err)
	}
	if o.Deadlines.KVM != 90*time.Second || o.Deadlines.Emulated != 90*time.Second || o.Idle != 5*time.Minute {
		t.Errorf("%+v", o)
	}
	for _, bad := range []string{"soon", "-1s", "0s", "5"} {
		err := o.FromEnv(func(k string) string { return map[string]string{"BROMURE_IDLE": bad}[k] })
		if problem.KindOf(err) != problem.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
