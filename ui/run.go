package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control"
)

// framesPerSecond is the most that Bubble Tea draws: it draws on a tick only, so that this is also the delay of a key.
const framesPerSecond = 120

// Run shows the TUI until the user leaves it or ctx ends. connect finds the daemon or starts one; in and out are the terminal.
func Run(ctx context.Context, connect func(context.Context) (*control.Client, error), in, out *os.File, getenv func(string) string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which consoles are opened with: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	do := &commands{
		ctx: ctx, connect: connect, leader: leaderFrom(getenv),
		attachArgv: []string{self, "vm", "attach", "--quiet", "--detach-keys", ""},
		env:        append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor"),
	}
	p := tea.NewProgram(newModel(do, getenv, time.Now), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	do.send = p.Send
	final, err := p.Run()
	if m, ok := final.(*model); ok {
		m.hangUp()
	}
	if cause := context.Cause(ctx); errors.Is(err, tea.ErrProgramKilled) && cause != nil {
		return cause
	}
	return err
}

// leaderFrom is the key that leaves a console, from BROMURE_LEADER: "ctrl+]" or another key with ctrl.
func leaderFrom(getenv func(string) string) string {
	if k := getenv("BROMURE_LEADER"); len(k) == len("ctrl+x") && k[:5] == "ctrl+" {
		return k
	}
	return defaultLeader
}
