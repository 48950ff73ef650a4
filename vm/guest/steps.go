package guest

import (
	"strings"
	"time"
	"unicode"
)

// Step is one stage of a boot, as the guest reports it on its serial console.
type Step string

const (
	StepKernel   Step = "kernel"   // the kernel runs our init
	StepModules  Step = "modules"  // the card and the disks are there
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
	msg := strings.TrimSpace(strings.Map(printable, err.Error()))
	if msg == "" {
		msg = "no reason given"
	}
	return errorPrefix + string(s) + " " + msg
}

// MaxLine is how much of a console line is looked at, in bytes.
const MaxLine = 1024

// ParseLine reads one line of the serial console. ok is false for lines that are not ours, that is for most.
// Other writers share the console, so our prefix may stand anywhere in the line.
func ParseLine(b string) (line Line, ok bool) {
	if len(b) > MaxLine {
		b = b[:MaxLine]
	}
	// The first of the two prefixes counts: what follows an error is its text, whatever that says.
	step, fail := strings.Index(b, stepPrefix), strings.Index(b, errorPrefix)
	done := step >= 0 && (fail < 0 || step < fail)
	var rest string
	switch {
	case done:
		rest = b[step+len(stepPrefix):]
	case fail >= 0:
		rest = b[fail+len(errorPrefix):]
	default:
		return Line{}, false
	}
	name, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if !known(Step(name)) {
		return Line{}, false
	}
	if done {
		// The kernel may write behind our line before our line ends.
		up, _, _ := strings.Cut(text, " ")
		d, err := time.ParseDuration(up)
		if err != nil || d < 0 {
			return Line{}, false
		}
		return Line{Step: Step(name), Uptime: d}, true
	}
	if text == "" {
		return Line{}, false
	}
	return Line{Step: Step(name), Err: strings.Map(printable, text)}, true
}

func known(s Step) bool {
	for _, k := range Steps {
		if s == k {
			return true
		}
	}
	return false
}

// printable replaces what would act on a terminal (ECMA-48, UAX #9).
func printable(r rune) rune {
	if unicode.IsControl(r) || r == '\ufffd' || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
		return '?'
	}
	return r
}
