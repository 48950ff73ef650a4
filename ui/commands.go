package ui

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/console"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// commands turns intents into effects. Each runs in a goroutine of Bubble Tea's, which restores the terminal when it panics; there are no
// other goroutines in this package.
type commands struct {
	ctx        context.Context
	connect    func(context.Context) (*control.Client, error)
	send       func(tea.Msg) // to the program; used by what reports while it runs
	attachArgv []string      // the program and its arguments, before the workspace
	env        []string
	leader     string

	serial atomic.Int64

	mu     sync.Mutex
	client *control.Client
	pull   func() (wire.Snapshot, error, bool)
	stop   func()
}

func (c *commands) next() int { return int(c.serial.Add(1)) }

// daemon is the client, connected when it is needed.
func (c *commands) daemon() (*control.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := c.connect(c.ctx)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

// retryAfter is how long the daemon is left alone after it went away.
const retryAfter = time.Second

// watch waits for the next snapshot. It is asked for again after each one, so that one is on its way at a time.
func (c *commands) watch() tea.Cmd {
	return func() tea.Msg {
		if c.pull == nil {
			client, err := c.daemon()
			if err != nil {
				return lost{err}
			}
			c.pull, c.stop = iter.Pull2(client.Watch(c.ctx))
		}
		s, err, ok := c.pull()
		if err == nil && ok {
			return snapshot{s}
		}
		c.stop()
		c.pull = nil
		c.mu.Lock()
		c.client = nil
		c.mu.Unlock()
		if err == nil {
			err = fmt.Errorf("the daemon is leaving")
		}
		return lost{err}
	}
}

// again watches once more, after a while.
func (c *commands) again() tea.Cmd {
	return tea.Sequence(func() tea.Msg {
		select {
		case <-time.After(retryAfter):
		case <-c.ctx.Done():
		}
		return nil
	}, c.watch())
}

// run carries out an intent that reaches the daemon.
func (c *commands) run(op kit.Op, i kit.Intent) tea.Cmd {
	return func() tea.Msg {
		client, err := c.daemon()
		if err != nil {
			return finished{op: op, err: err}
		}
		report := func(p wire.Progress) { c.send(progressed{op.Serial, p}) }
		switch i := i.(type) {
		case kit.DoVerb:
			do := wire.Do{Verb: string(i.Verb), Workspace: string(i.ID)}
			if i.Verb == verb.ImageBuild {
				do.Build = &wire.Build{}
			}
			last, err := client.Do(c.ctx, do, report)
			return finished{op: op, last: last, err: err}
		case kit.CarryOut:
			last, err := client.Do(c.ctx, wire.Do{Plan: i.Plan.ID}, report)
			return finished{op: op, last: last, err: err}
		case kit.AskPlan:
			plan, err := client.Plan(c.ctx, wire.PlanRequest{Verb: i.Verb, Subject: i.Subject})
			if err == nil {
				c.send(planned{plan})
			}
			return finished{op: op, err: err}
		case kit.CreateWorkspace:
			w, err := client.Create(c.ctx, i.Want)
			done := finished{op: op, last: wire.Progress{Workspace: &w}, err: err}
			if err == nil && i.Start {
				done.then = []kit.Intent{kit.DoVerb{Verb: verb.Start, ID: w.ID, What: string(w.Name)}}
			}
			return done
		}
		return finished{op: op}
	}
}

// attach opens a console.
func (c *commands) attach(id vm.ID, name string, cols, rows int) tea.Cmd {
	return func() tea.Msg {
		argv := append(append([]string{}, c.attachArgv...), "--console", name, string(id))
		s, err := console.Start(name, argv, c.env, cols, rows)
		return opened{id, s, err}
	}
}

// wait waits for a change of a console.
func (c *commands) wait(s *console.Session) tea.Cmd {
	return func() tea.Msg { return printed{s, s.Wait()} }
}

// bootLines is how much of a boot is shown.
const bootLines = 12

// followBoot reads the serial console of a machine that starts, a line with each message.
func (c *commands) followBoot(id vm.ID) tea.Cmd {
	return func() tea.Msg {
		client, err := c.daemon()
		if err != nil {
			return nil
		}
		log, err := client.Logs(c.ctx, string(id), layout.SerialLog, wire.LogQuery{Follow: true, Tail: 0})
		if err != nil {
			return nil // the steps of the start say what matters
		}
		lines := bufio.NewScanner(log)
		var last []string
		var more tea.Cmd
		more = func() tea.Msg {
			if !lines.Scan() {
				log.Close()
				return nil
			}
			last = append(last[max(0, len(last)-bootLines+1):len(last):len(last)], lines.Text())
			return booted{id: id, lines: last, next: more, end: func() { log.Close() }}
		}
		return more()
	}
}
