package daemon

import (
	"context"
	"fmt"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// Plan plans a verb that removes something. subject is a workspace's reference or an image's, empty for the verbs that have none.
func (d *Daemon) Plan(ctx context.Context, v verb.Verb, subject string) (verb.Plan, error) {
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
func (d *Daemon) carryOut(ctx context.Context, planID string, report func(wire.Progress)) error {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return errClosing
	}
	d.ops.Add(1)
	d.mu.Unlock()
	defer d.ops.Done()
	report(wire.Progress{Step: "remove"})
	// A removal that has begun is finished, whoever goes away meanwhile.
	_, err := d.remover.Do(context.WithoutCancel(ctx), planID)
	d.publish()
	return err
}
