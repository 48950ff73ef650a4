// Package wire has the words of the control socket: what goes over it as JSON, and the frames of an
// attached stream. docs/control-socket.md is the same for people, with curl examples.
package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// Prefix is the version of the API, the first element of every path.
const Prefix = "/v1"

// Host is the only Host header that the daemon accepts: a web page that reaches the socket by
// some detour has another.
const Host = "bromure"

// Paths. {ws} is a workspace's name, ID or unique ID prefix, as one escaped path element.
const (
	PathHealth     = Prefix + "/health"              // GET → Health
	PathWatch      = Prefix + "/watch"               // GET → Snapshot per line; ?once=1: the first only
	PathWorkspaces = Prefix + "/workspaces"          // POST Create → Workspace
	PathWorkspace  = Prefix + "/workspaces/{ws}"     // GET → Workspace
	PathPlan       = Prefix + "/plan"                // POST PlanRequest → verb.Plan
	PathLease      = Prefix + "/lease/{ws}"          // POST → {} and then nothing: an attached throw-away lives as long as the connection
	PathDo         = Prefix + "/do"                  // POST Do → Progress per line, the last has Done
	PathLogs       = Prefix + "/logs/{ws}/{kind}"    // GET → the ring's bytes; ?follow=1; ?tail=LINES
	PathAttach     = Prefix + "/attach/{ws}"         // POST Attach, Upgrade → frames
	PathForward    = Prefix + "/forward/{ws}/{addr}" // POST, Upgrade → a raw byte stream to host:port in the guest
	PathPorts      = Prefix + "/ports/{ws}"          // GET → []guest.Port
	PathDoctor     = Prefix + "/doctor"              // GET → vm.Capabilities; ?fresh=1: probe again
	PathImages     = Prefix + "/images"              // GET → []images.Manifest
	PathVerify     = Prefix + "/images/{ref}/verify" // POST → Progress per line; {ref} may be [Newest]
	PathShutdown   = Prefix + "/shutdown"            // POST Shutdown → Progress per line
)

// API is the version of the words in this package. It changes when an old front would misread a new daemon.
const API = 1

// Newest stands for the newest image in a path. It is no image reference: "@" is not allowed in one.
const Newest = "@newest"

// Upgrade is the protocol name in the Upgrade header of attach and forward.
const Upgrade = "bromure-stream"

// Health says who answers.
type Health struct {
	Version string      `json:"version"` // of the program
	API     int         `json:"api"`
	PID     int         `json:"pid"`
	Root    layout.Root `json:"root"`
	Started time.Time   `json:"started"`
	Closing bool        `json:"closing,omitempty"` // it finishes what is in progress and leaves: fronts wait for the next one
}

// Snapshot is everything that a front shows. It travels whole; the newest one wins.
type Snapshot struct {
	Seq          uint64          `json:"seq"`
	Now          time.Time       `json:"now"`
	Health       Health          `json:"daemon"`
	Backend      string          `json:"backend"`
	Capabilities vm.Capabilities `json:"capabilities"`
	FreeBytes    int64           `json:"free_bytes"` // of the volume that holds the data root
	Workspaces   []Workspace     `json:"workspaces"` // by name
	Closing      bool            `json:"closing,omitempty"`
}

// Workspace is one workspace as fronts see it.
type Workspace struct {
	vm.Workspace
	State      vm.State       `json:"state"`
	Compromise *vm.Compromise `json:"compromised,omitempty"`
	Failure    *vm.Failure    `json:"failure,omitempty"`
	Invalid    string         `json:"invalid,omitempty"` // why workspace.json cannot be used; then only ID is sure

	Notice      string         `json:"notice,omitempty"` // what the user should know of a machine that runs
	Started     time.Time      `json:"started,omitzero"` // of the machine
	Accelerator vm.Accelerator `json:"accelerator,omitempty"`
	Steps       []Step         `json:"steps,omitempty"` // of the start in progress or of the last one
	DiskOwn     int64          `json:"disk_own"`        // bytes of disk.img that it shares with nothing
	HomeOwn     int64          `json:"home_own"`
	Stats       *guest.Stats   `json:"stats,omitempty"`
	Ports       []guest.Port   `json:"ports,omitempty"`
	Consoles    int            `json:"consoles,omitempty"`
	Refused     int            `json:"refused"` // outbound connections refused since the machine started
	Dir         string         `json:"dir"`
}

// Step is a finished or running step of an operation.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took,omitempty"`
	Done bool          `json:"done"`
	Note string        `json:"note,omitempty"`
}

// Create asks for a workspace; zero values mean the defaults.
type Create struct {
	Name      string `json:"name,omitempty"` // empty: one is made up
	MemoryMiB int    `json:"memory_mib,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	HomeMiB   int64  `json:"home_mib,omitempty"`
	Image     string `json:"image,omitempty"` // empty: the newest at the first start
	Color     string `json:"color,omitempty"`
	Notes     string `json:"notes,omitempty"`

	Throwaway vm.Throwaway `json:"throwaway,omitempty"` // deleted when its machine stops
}

// Do asks for a verb. The answer is a stream of [Progress].
type Do struct {
	Verb      string        `json:"verb"` // as internal/verb names it: start, stop, kill, reboot, image-build
	Workspace string        `json:"workspace,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"` // stop: how long the guest may take before it is killed
	Hard      bool          `json:"hard,omitempty"`    // reboot: like a reset button
	Build     *Build        `json:"build,omitempty"`

	// Plan is the ID of a plan that the user has confirmed; then nothing else is set. Only the daemon's own copy is
	// carried out. One that is out of date is refused, and the last Progress has the new plan.
	Plan string `json:"plan,omitempty"`
}

// PlanRequest asks for the plan of a verb that removes something. Nothing is removed for it.
type PlanRequest struct {
	Verb    verb.Verb `json:"verb"`
	Subject string    `json:"subject,omitempty"` // a workspace's name, ID or unique ID prefix; an image's reference
}

// Build asks for an image.
type Build struct {
	Distro string `json:"distro,omitempty"`
	Suite  string `json:"suite,omitempty"`
}

// Progress is one line of an operation's stream.
type Progress struct {
	Step      string        `json:"step,omitempty"` // a step has begun
	Note      string        `json:"note,omitempty"`
	Took      time.Duration `json:"took,omitempty"` // with Finished
	Finished  bool          `json:"finished,omitempty"`
	Done      bool          `json:"done,omitempty"` // the operation is over
	Error     *Error        `json:"error,omitempty"`
	Workspace *Workspace    `json:"workspace,omitempty"` // with Done, where there is one
	NewPlan   *verb.Plan    `json:"new_plan,omitempty"`  // with Error, when the confirmed plan was out of date
	Image     string        `json:"image,omitempty"`     // with Done of image-build
}

// Shutdown asks the daemon to leave.
type Shutdown struct {
	Machines bool `json:"machines,omitempty"` // stop the machines first
}

// Attach begins a stream: exactly one of Exec and Console is set.
type Attach struct {
	Exec    *guest.Exec    `json:"exec,omitempty"`
	Console *guest.Console `json:"console,omitempty"`
}

// Bounds of an [Attach].
const (
	maxArgs  = 4096
	maxEnv   = 1024
	maxCells = 10_000 // columns and rows of a terminal
)

// Check says what is wrong with a.
func (a Attach) Check() error {
	bad := func(msg string) error { return problem.New(problem.Usage, msg, "") }
	switch {
	case (a.Exec == nil) == (a.Console == nil):
		return bad("a stream is for a program or for a console, one of them")
	case a.Console != nil:
		return checkStart(a.Console.Argv, nil, a.Console.Size, a.Console.Name+a.Console.Term)
	case len(a.Exec.Argv) == 0 || a.Exec.Argv[0] == "":
		return bad("there is no command to run")
	case a.Exec.Shell && len(a.Exec.Argv) != 1:
		return bad("a command line for the shell is one string")
	}
	return checkStart(a.Exec.Argv, a.Exec.Env, a.Exec.Size, a.Exec.Dir+a.Exec.Term)
}

// checkStart bounds what a program in the guest is started with. A NUL would cut a string short there.
func checkStart(argv []string, env map[string]string, size guest.Size, other string) error {
	bad := func(msg string) error { return problem.New(problem.Usage, msg, "") }
	if len(argv) > maxArgs || len(env) > maxEnv {
		return bad("too many arguments or environment variables")
	}
	if size.Cols < 0 || size.Cols > maxCells || size.Rows < 0 || size.Rows > maxCells {
		return bad("no terminal has that size")
	}
	for _, s := range append(slices.Clone(argv), other) {
		if strings.ContainsRune(s, 0) {
			return bad("an argument must not contain a NUL")
		}
	}
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return bad("not an environment variable: " + strconv.Quote(k))
		}
	}
	return nil
}

// LogQuery says how much of a log is wanted.
type LogQuery struct {
	Follow bool // wait for more
	Tail   int  // begin with the last so many lines; negative: everything that is kept
}

// DaemonLog is the daemon's own log, beside the layout.LogKind values. In a path its workspace is [NoWorkspace].
const DaemonLog = "daemon"

// NoWorkspace stands in a path where a workspace would: no workspace can be called so.
const NoWorkspace = "-"
