package daemon

import (
	"sync"
	"time"

	"bromure.io/tui/vm/disk"
)

// measureEvery is how often the shared blocks of one disk are counted at most: reading the map of a disk's
// extents takes milliseconds, and snapshots are made many times a second.
const measureEvery = 2 * time.Second

// usages remembers what disks take. Its zero value is ready.
type usages struct {
	mu   sync.Mutex
	seen map[string]measured
}

type measured struct {
	plain disk.Usage // when it was measured, to see a change
	full  disk.Usage
	at    time.Time
}

// of is the room that a disk takes. mayShare says that it was made by a clone that shares blocks with its base; only then
// its own bytes have to be told from the others.
func (u *usages) of(path string, mayShare bool) (disk.Usage, error) {
	plain, err := disk.Stat(path)
	if err != nil || !mayShare {
		return plain, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	old, ok := u.seen[path]
	if ok && (old.plain == plain || time.Since(old.at) < measureEvery) {
		return old.full, nil
	}
	full, err := disk.Measure(path)
	if err != nil {
		return plain, nil
	}
	if u.seen == nil {
		u.seen = map[string]measured{}
	}
	u.seen[path] = measured{plain, full, time.Now()}
	return full, nil
}
