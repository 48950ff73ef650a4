package guest

import (
	"strings"
	"time"
)

// Step is one stage of a boot, as the guest reports it on its serial console.
type Step string

const (
	StepKernel   Step = "kernel"   // the kernel runs our init
	StepModules  Step = "modules"  // drivers are loaded
	StepNetwork  Step = "network"  // the NIC has its address
	StepDisks    Step = "disks"    // root and home are mounted
	StepSSH      Step = "ssh"      // the SSH server listens
	StepHandover Step = "handover" // the distribution's init has taken over
)

// Steps lists the stages in their order.
var Steps = []Step{StepKernel, StepModules, StepNetwork, StepDisks, StepSSH, StepHandover}

const (
	stepPrefix  = "BROMURE-STEP "
	errorPrefix = "BROMURE-ERROR "
)

// Line is what a line of the serial console says, if it is one of ours.
type Line struct {
	Step   Step
	Uptime time.Duration // since the kernel started, the guest's word
	Err    string        // why that step failed; empty: it is done
}

// FormatStep is the line that reports a finished step.
func FormatStep(s Step, uptime time.Duration) string {
	return stepPrefix + string(s) + " " + uptime.Round(time.Millisecond).String()
}

// FormatError is the line that reports a failed step. The guest stops after it.
func FormatError(s Step, err error) string {
	return errorPrefix + string(s) + " " + strings.Map(printable, err.Error())
}

// MaxLine is how much of a console line is looked at, in bytes.
const MaxLine = 1024

// ParseLine reads one line of the serial console. ok is false for lines that are not ours, that is for most.
// Other writers share the console, so our prefix may stand anywhere in the line.
func ParseLine(b string) (line Line, ok bool) {
	if len(b) > MaxLine {
		b = b[:MaxLine]
	}
	if _, rest, found := strings.Cut(b, stepPrefix); found {
		name, up, _ := strings.Cut(strings.TrimSpace(rest), " ")
		d, err := time.ParseDuration(up)
		if err != nil || d < 0 || !known(Step(name)) {
			return Line{}, false
		}
		return Line{Step: Step(name), Uptime: d}, true
	}
	if _, rest, found := strings.Cut(b, errorPrefix); found {
		name, msg, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if !known(Step(name)) || msg == "" {
			return Line{}, false
		}
		return Line{Step: Step(name), Err: strings.Map(printable, msg)}, true
	}
	return Line{}, false
}

func known(s Step) bool {
	for _, k := range Steps {
		if s == k {
			return true
		}
	}
	return false
}

func printable(r rune) rune {
	if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
		return '?'
	}
	return r
}
