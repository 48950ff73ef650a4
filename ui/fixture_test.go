package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/dialogs"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/ui/screens"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// id is the ID of a fixture: one digit, repeated.
func id(digit string) vm.ID { return vm.ID(strings.Repeat(digit, 32)) }

func workspace(digit, name string, s vm.State) wire.Workspace {
	return wire.Workspace{
		Workspace: vm.Workspace{ID: id(digit), Name: vm.Name(name), CPUs: 2, MemoryMiB: 4096, HomeMiB: 65536,
			Created: now.Add(-18 * 24 * time.Hour), LastUsed: now.Add(-2 * time.Hour), Image: "debian-12-5b487047"},
		State: s, DiskOwn: 2_300_000_000, HomeOwn: 610_000_000, Dir: "/home/me/.local/share/bromure/workspaces/" + string(id(digit)),
	}
}

// fixture is a snapshot with a workspace of each sort.
func fixture() wire.Snapshot {
	running := workspace("1", "api-server", vm.Running)
	running.Started, running.Consoles, running.Refused = now.Add(-192*time.Minute), 2, 2
	running.Stats = &guest.Stats{Uptime: 192 * time.Minute, CPUs: 2, Load1: 0.4, Load5: 0.21, Load15: 0.1, MemTotal: 4 << 30, MemUsed: 1_180_000_000,
		RootTotal: 24 << 30, RootUsed: 2 << 30, HomeTotal: 64 << 30, HomeUsed: 600 << 20, Processes: 41}
	running.Ports = []guest.Port{{Proto: "tcp", Address: "0.0.0.0", Port: 8080, Process: "node"}, {Proto: "tcp", Address: "127.0.0.1", Port: 5432, Process: "postgres", Loopback: true}}
	running.Notes = "The parser rewrite. Ask before touching the schema."
	starting := workspace("2", "docs", vm.Starting)
	starting.Steps = []wire.Step{{Name: "lock", Done: true}, {Name: "disk", Done: true, Took: 14 * time.Millisecond, Note: "overlay"},
		{Name: "machine", Done: true, Took: 430 * time.Millisecond, Note: "emulated"}, {Name: "guest"}}
	broken := workspace("3", "old-agent", vm.Broken)
	broken.Failure = &vm.Failure{Step: "image", Err: "find the image \"debian-12-4f9b\": no such image", Hint: "B builds one.", At: now.Add(-5 * time.Minute)}
	marked := workspace("4", "tried-to-leak", vm.Off)
	marked.Compromise = &vm.Compromise{Reason: "a placeholder of “GitHub token” was sent to evil.example", At: now.Add(-26 * time.Hour)}
	hostile := workspace("5", "web\x1b[2J\x1b]0;pwned\x07\r\u009b31mX\u202e", vm.Off)
	hostile.Notes = "line one\n\x1b]52;c;aGk=\x07line two"
	wide := workspace("6", "表 日本 👨‍👩‍👧 ☁️ é", vm.Off)
	return wire.Snapshot{
		Now: now, FreeBytes: 41 << 30, Backend: "qemu",
		Capabilities: vm.Capabilities{Accelerator: vm.Emulated, Why: "the processor offers no virtualisation"},
		Workspaces:   []wire.Workspace{running, starting, broken, workspace("7", "scratch", vm.Off), marked, hostile, wide},
	}
}

var errNoDaemon = errors.New("no daemon in this test")

// fixed is a model with the fixture on a screen of that size. Its clock stands still, and its commands are made and not run.
func fixed(size kit.Size, mode kit.Mode) *model {
	env := map[string]string{"LC_ALL": "C.UTF-8", "BROMURE_THEME": string(mode)}
	do := &commands{
		ctx: context.Background(), leader: defaultLeader, send: func(tea.Msg) {},
		connect: func(context.Context) (*control.Client, error) { return nil, errNoDaemon },
	}
	m := newModel(do, func(k string) string { return env[k] }, func() time.Time { return now })
	m.frame.Theme = kit.NewTheme(mode, false)
	m.route(tea.WindowSizeMsg{Width: size.W, Height: size.H})
	m.route(snapshot{fixture()})
	earlier := *fixture().Workspaces[0].Stats
	l := &kit.Load{}
	for i := range 40 {
		earlier.Uptime += time.Second
		earlier.CPUBusy += time.Duration(i*i%17) * 100 * time.Millisecond
		l.Push(earlier)
	}
	m.frame.Loads[id("1")] = l
	return m
}

// press types keys: single characters, or names in the way of Bubble Tea.
func (m *model) types(keys ...string) {
	for _, k := range keys {
		m.Update(key(k))
	}
}

func key(name string) tea.KeyPressMsg {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "left": tea.KeyLeft}
	if c, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: []rune(rest)[0], Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

func (m *model) write(text string) {
	for _, r := range text {
		m.types(string(r))
	}
}

func plan(v verb.Verb, back ...string) verb.Plan {
	return verb.Plan{
		ID: "p1", Verb: v, Subject: verb.Subject{Kind: "workspace", ID: string(id("7")), Name: "scratch"}, Made: now,
		Losses: []verb.Item{
			{Kind: "disk", What: "the system disk", Path: "disk.img", Own: 2_300_000_000, Changed: now.Add(-2 * time.Hour)},
			{Kind: "home", What: "/home/ubuntu", Path: "home.img", Own: 610_000_000, Changed: now.Add(-50 * time.Hour)},
			{Kind: "unknown", What: "a file that this program did not make", Path: "x\x1b[2Jy", Own: 12, Changed: now.Add(-time.Minute)},
			{Kind: "mac", What: "the reserved MAC address 02:f0:2a:94:0d:20"},
		},
		Keeps: []string{"the base image", "shared host folders, untouched"}, WayBack: back,
	}
}

func longPlan() verb.Plan {
	p := plan(verb.Delete)
	for range 60 {
		p.Losses = append(p.Losses, verb.Item{What: "the system half of a checkpoint", Path: "checkpoints/2026-11-29T18:02:11Z/disk.img", Own: 1 << 20, Shared: 1 << 30, Changed: now.Add(-18 * time.Hour)})
	}
	return p
}

// scenes are what golden frames and the sweep of sizes look at.
var scenes = []struct {
	name string
	set  func(*testing.T, *model)
}{
	{"running", func(*testing.T, *model) {}},
	{"starting", func(_ *testing.T, m *model) {
		m.frame.Ops = []kit.Op{{Serial: 1, Verb: verb.Start, ID: id("2"), What: "docs: start", Begun: now.Add(-4 * time.Second)}}
		m.frame.Serial[id("2")] = []string{"[    0.412] virtio_blk virtio1: \x1b[31m[vda]", "BROMURE-STEP kernel 1.2s"}
		m.types("2")
	}},
	{"broken", func(_ *testing.T, m *model) { m.types("3") }},
	{"compromised", func(_ *testing.T, m *model) { m.types("5") }},
	{"hostile", func(_ *testing.T, m *model) { m.types("6") }},
	{"detail", func(_ *testing.T, m *model) { m.types("i") }},
	{"off-key", func(_ *testing.T, m *model) { m.types("D") }},
	{"filter", func(_ *testing.T, m *model) { m.types("/"); m.write("ap") }},
	{"help", func(_ *testing.T, m *model) { m.types("?") }},
	{"form", func(_ *testing.T, m *model) { m.types("n"); m.write("API-SERVER") }},
	{"finder", func(_ *testing.T, m *model) { m.types("ctrl+p"); m.write("st") }},
	{"plan-name", func(_ *testing.T, m *model) { m.Update(planned{plan(verb.Delete)}); m.write("scr") }},
	{"plan-way-back", func(_ *testing.T, m *model) { m.Update(planned{plan(verb.Reset, "checkpoint 28 Nov 09:14")}) }},
	{"plan-long", func(_ *testing.T, m *model) { m.Update(planned{longPlan()}) }},
	{"plan-changed", func(_ *testing.T, m *model) { m.open(dialogs.NewChangedPlan(plan(verb.Delete)), true) }},
	{"kill", func(_ *testing.T, m *model) { m.types("K") }},
	{"quit", func(_ *testing.T, m *model) { m.types("q") }},
	{"error", func(_ *testing.T, m *model) {
		m.fail("api-server: stop", problem.New(problem.DeadlineMiss, "stop \"api-server\": the guest did not \x1b[31manswer within 30s", "K ends it at once."))
	}},
	{"building", func(_ *testing.T, m *model) {
		m.frame.Ops = []kit.Op{{Serial: 1, Verb: verb.ImageBuild, What: "Build a base image", Step: "packages", Begun: now.Add(-75 * time.Second)}}
	}},
	{"no-daemon", func(_ *testing.T, m *model) { m.route(lost{errors.New("find the daemon: none is running")}) }},
	{"empty", func(_ *testing.T, m *model) { m.route(snapshot{wire.Snapshot{Now: now, FreeBytes: 1 << 30}}) }},
}

// withConsole is the frame of a model with a console in it, which no process draws.
func withConsole(m *model, focused bool) *kit.Frame {
	f := m.view()
	area := screens.ConsoleArea(f.Size, false)
	lines := make([]string, area.H)
	for i := range lines {
		lines[i] = kit.Pad("\x1b[32mubuntu@api-server\x1b[m:~$ git push", area.W)
	}
	f.Console = &kit.ConsoleView{Tabs: []string{"main", "console-2"}, Lines: lines, Focused: focused}
	return f
}
