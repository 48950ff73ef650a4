package daemon

import "bromure.io/tui/vm"

// used records that a workspace was started.
func (d *Daemon) used(id vm.ID) {
	_, err := d.store.Update(id, func(w *vm.Workspace) error {
		w.LastUsed = d.now().UTC()
		return nil
	})
	if err != nil {
		d.log.Warn("record the last use", "workspace", id, "error", err)
	}
}
