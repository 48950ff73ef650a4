package guest

import "time"

// SSH names of ours. Standard clients use the standard ones (session with shell, exec, pty-req,
// window-change, signal, subsystem sftp; direct-tcpip); these are for the daemon.
const (
	// CallChannel is a channel type: its extra data is a [CallRequest] as JSON, the guest writes one
	// [CallReply] as JSON and closes the channel.
	CallChannel = "call@bromure.io"

	// ExecRequestName is a request on a session channel instead of "exec": its payload is an [Exec] as
	// JSON. The program is started as it is, by no shell.
	ExecRequestName = "exec@bromure.io"

	// ConsoleRequestName is a request on a session channel instead of "shell": its payload is a
	// [Console] as JSON. The console outlives the channel.
	ConsoleRequestName = "console@bromure.io"

	// ExitErrorName is a request from the guest on a session channel, before its exit status: the payload
	// is why the program could not be started, as text. The status is [CannotRun] or [NotFound] then.
	ExitErrorName = "exit-error@bromure.io"
)

// MaxCall bounds the JSON of a call and of its reply, in bytes, on both sides.
const MaxCall = 1 << 20

// CallRequest is one call of the daemon to the guest.
type CallRequest struct {
	Method Method `json:"method"`
	Params any    `json:"params,omitempty"`
}

// CallReply is the answer: Error is empty when it worked.
type CallReply struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Method names a call.
type Method string

const (
	MethodHello    Method = "hello"    // → Hello
	MethodStats    Method = "stats"    // → Stats
	MethodPorts    Method = "ports"    // → []Port
	MethodClock    Method = "clock"    // Clock → Clock: sets the guest's clock, answers with what it reads
	MethodTrim     Method = "trim"     // → Trimmed: gives unused blocks of both disks back to the host
	MethodSync     Method = "sync"     // writes everything to the disks
	MethodPowerOff Method = "poweroff" // PowerOff: begins to shut down; the reply comes first
	MethodReboot   Method = "reboot"   // PowerOff: the same, and starts again
	MethodConsoles Method = "consoles" // → []ConsoleInfo
)

// Hello is what a guest says of itself.
type Hello struct {
	Version int    `json:"version"`
	Kernel  string `json:"kernel"`
	Booted  bool   `json:"booted"` // the distribution's init has reached its default target
	BootID  string `json:"boot_id"`
}

// Clock carries a wall-clock time.
type Clock struct {
	Time time.Time `json:"time"`
}

// PowerOff asks for an orderly shutdown. After Grace what still runs is killed and the file
// systems are unmounted all the same.
type PowerOff struct {
	Grace time.Duration `json:"grace"`
}

// Trimmed counts the bytes that were given back.
type Trimmed struct {
	Root int64 `json:"root"`
	Home int64 `json:"home"`
}

// Stats is a reading of the guest's load. All of it is the guest's word.
type Stats struct {
	Uptime    time.Duration `json:"uptime"`
	Load1     float64       `json:"load1"`
	Load5     float64       `json:"load5"`
	Load15    float64       `json:"load15"`
	CPUBusy   time.Duration `json:"cpu_busy"` // sum over all CPUs since boot
	CPUs      int           `json:"cpus"`
	MemTotal  int64         `json:"mem_total"` // bytes
	MemUsed   int64         `json:"mem_used"`  // total less available
	RootTotal int64         `json:"root_total"`
	RootUsed  int64         `json:"root_used"`
	HomeTotal int64         `json:"home_total"`
	HomeUsed  int64         `json:"home_used"`
	Processes int           `json:"processes"`
}

// Port is a listening socket in the guest.
type Port struct {
	Proto    string `json:"proto"` // "tcp", "tcp6"
	Address  string `json:"address"`
	Port     int    `json:"port"`
	Process  string `json:"process,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Loopback bool   `json:"loopback"`
}

// Size is a terminal's size in cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Exec is a program to run in the guest.
type Exec struct {
	Argv  []string          `json:"argv"`
	Env   map[string]string `json:"env,omitempty"` // added to the login environment
	Dir   string            `json:"dir,omitempty"` // default: the user's home
	Root  bool              `json:"root,omitempty"`
	TTY   bool              `json:"tty,omitempty"`
	Size  Size              `json:"size,omitzero"`
	Term  string            `json:"term,omitempty"`  // TERM of the caller, for a TTY
	Shell bool              `json:"shell,omitempty"` // Argv is one string for the login shell, as sshd would run it; empty: a login shell
}

// Console attaches to a terminal session that the guest program holds.
type Console struct {
	Name string   `json:"name"` // made when it does not exist; see [DefaultConsole]
	Size Size     `json:"size"`
	Term string   `json:"term,omitempty"`
	Argv []string `json:"argv,omitempty"` // default: a login shell

	Env map[string]string `json:"env,omitempty"` // added to the login environment when it is made
}

// DefaultConsole is the console that is attached to when none is named.
const DefaultConsole = "main"

// ConsoleInfo describes a console that exists.
type ConsoleInfo struct {
	Name     string    `json:"name"`
	Started  time.Time `json:"started"`
	Attached int       `json:"attached"`
	Size     Size      `json:"size"`
	Command  string    `json:"command"` // the guest's word
	Exited   bool      `json:"exited"`
}
