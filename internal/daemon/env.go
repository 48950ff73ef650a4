package daemon

import (
	"fmt"
	"time"

	"bromure.io/tui/internal/problem"
)

// FromEnv sets what the environment may override: BROMURE_BOOT_DEADLINE, how long a guest may take
// to answer, and BROMURE_IDLE, how long a daemon with nothing to do stays. Both are durations as Go writes them ("90s").
func (o *Options) FromEnv(getenv func(string) string) error {
	for name, to := range map[string][]*time.Duration{
		"BROMURE_BOOT_DEADLINE": {&o.Deadlines.KVM, &o.Deadlines.Emulated},
		"BROMURE_IDLE":          {&o.Idle},
	} {
		text := getenv(name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return problem.New(problem.Usage, fmt.Sprintf("%s is %q, which is not a duration", name, text), "Write it as 90s or 5m.")
		}
		for _, t := range to {
			*t = d
		}
	}
	return nil
}
