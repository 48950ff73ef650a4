package daemon

import (
	"context"
	"errors"
	"fmt"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/removal"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// Plan plans a verb that removes something. subject is a workspace's reference or an image's, empty for the verbs that have none.
func (d *Daemon) Plan(ctx context.Context, p wire.PlanRequest) (verb.Plan, error) {
	v, subject := p.Verb, p.Subject
	row, ok := verb.Find(v)
	if !ok || !row.Removes {
		return verb.Plan{}, problem.New(problem.Usage, fmt.Sprintf("%q removes nothing, so there is no plan of it", v), "")
	}
	if row.Noun == "workspace" {
		id, err := d.store.Resolve(subject)
		if err != nil {
			return verb.Plan{}, err
		}
		subject = string(id)
	}
	return d.remover.Plan(ctx, v, subject)
}

// carryOut does what a plan says that a front has confirmed.
func (d *Daemon) carryOut(ctx context.Context, planID string, report func(wire.Progress)) (wire.Progress, error) {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return wire.Progress{}, errClosing
	}
	d.ops.Add(1)
	d.mu.Unlock()
	defer d.ops.Done()
	report(wire.Progress{Step: "remove"})
	// A removal that has begun is finished, whoever goes away meanwhile.
	p, err := d.remover.Do(context.WithoutCancel(ctx), planID)
	if err == nil && p.Verb == verb.Uninstall {
		d.leaveSoon()
		return wire.Progress{}, nil
	}
	if err == nil && p.Verb == verb.Delete {
		d.forget(vm.ID(p.Subject.ID))
	}
	d.publish()
	if c, ok := errors.AsType[*removal.Changed](err); ok {
		return wire.Progress{NewPlan: &c.New}, err
	}
	return wire.Progress{}, err
}

// forget drops what is known of a workspace that is deleted.
func (d *Daemon) forget(id vm.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[id]; e != nil && e.op == nil && e.machine == nil {
		delete(d.entries, id)
	}
}
