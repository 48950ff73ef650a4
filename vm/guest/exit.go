package guest

import "strings"

// Exit is how a program in the guest ended.
type Exit struct {
	Code   int    `json:"code"`             // 128 + the signal's number where a signal ended it, as shells count
	Signal string `json:"signal,omitempty"` // its name without "SIG"
}

// Exit codes of a program that did not start, as shells and docker give them.
const (
	CannotRun = 126 // found, but it may not be executed or its directory is missing
	NotFound  = 127
)

// signals of Linux on x86-64 and arm64, by number: signal(7). The host may count differently.
var signals = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
	11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
	20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
	29: "IO", 30: "PWR", 31: "SYS",
}

// SignalNumber is the guest's number of a signal; "SIG" before the name and an "@domain" behind
// it (RFC 4254, section 6.10, for names that the RFC does not list) are allowed.
func SignalNumber(name string) (n int, ok bool) {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "SIG"), "@")
	for i, s := range signals {
		if i > 0 && s == name {
			return i, true
		}
	}
	return 0, false
}

// SignalName is the name of a signal without "SIG", or "" for a number without a name (a real-time signal).
func SignalName(n int) string {
	if n <= 0 || n >= len(signals) {
		return ""
	}
	return signals[n]
}
