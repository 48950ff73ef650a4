package vm

import "time"

// State is what a workspace's machine does.
type State string

const (
	Off      State = "off"
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	Broken   State = "broken" // the last start failed; Failure says where
)

// Failure is why a workspace is [Broken].
type Failure struct {
	Step string    `json:"step"` // the step of the start that failed, as the boot plan names it
	Err  string    `json:"error"`
	Hint string    `json:"hint,omitempty"`
	At   time.Time `json:"at"`
}

// Compromise is the sticky mark of a workspace that sent a placeholder where it does not
// belong. A marked workspace does not boot, whatever its state.
type Compromise struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}
