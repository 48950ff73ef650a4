package removal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// journalVersion is the version of journal.json that this program writes.
const journalVersion = 1

// Move takes one thing from its place into the trash.
type Move struct {
	From     string `json:"from"`               // relative to the data root
	Identity string `json:"identity,omitempty"` // of what is to be moved; another thing in its place stays
}

// Job is a plan with what carrying it out means. It is the content of a journal.
type Job struct {
	Version int       `json:"version"`
	Plan    verb.Plan `json:"plan"`
	Moves   []Move    `json:"moves"`
	// After names what is done when the files are gone, in this order; see [Remover].After. Each may be done twice.
	After []string `json:"after,omitempty"`
}

// The trash has a directory for each removal under way: journal.json, and what was moved, by its number.
const journalName = "journal.json"

func (r *Remover) dir(planID string) string { return filepath.Join(r.Root.Trash(), planID) }

// reserveName is a file whose only purpose is to be removed when the disk is full: its room is what the
// journal of a deletion needs.
const (
	reserveName = ".reserve"
	reserveSize = 512 << 10
)

// Ready makes the trash and its reserve.
func (r *Remover) Ready() error {
	if err := layout.Ensure(r.Root.Trash()); err != nil {
		return fmt.Errorf("make the trash: %w", err)
	}
	_ = atomicfile.Sweep(r.Root.Trash()) // of a reserve that was being written; what cannot be swept is no obstacle
	path := filepath.Join(r.Root.Trash(), reserveName)
	if fi, err := os.Lstat(path); err == nil && fi.Size() == reserveSize {
		return nil
	}
	// Real bytes, not a hole: the room must be there when it is needed.
	data := make([]byte, reserveSize)
	for i := range data {
		data[i] = byte(i)
	}
	if err := atomicfile.Write(path, data, layout.FileMode); err != nil && !problem.IsFull(err) {
		return fmt.Errorf("reserve room for journals: %w", err)
	}
	return nil
}

// write makes the journal of a job. From then on the job will be carried out.
func (r *Remover) write(job Job) error {
	data, err := json.Marshal(job)
	if err != nil {
		return err
	}
	make := func() error {
		if err := os.Mkdir(r.dir(job.Plan.ID), layout.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return atomicfile.Write(filepath.Join(r.dir(job.Plan.ID), journalName), data, layout.FileMode)
	}
	err = make()
	if problem.IsFull(err) {
		if rmErr := os.Remove(filepath.Join(r.Root.Trash(), reserveName)); rmErr == nil {
			err = make()
		}
	}
	if err == nil {
		err = atomicfile.SyncDir(r.Root.Trash())
	}
	if err != nil {
		_ = os.RemoveAll(r.dir(job.Plan.ID)) // no journal, no removal
		err = fmt.Errorf("nothing was removed: write the journal: %w", err)
		if problem.IsFull(err) {
			return problem.OfDisk(err, r.Root.Trash())
		}
		return problem.Wrap(problem.Failed, err, "", "Every removal begins with a journal in "+r.Root.Trash()+", which must be writable.")
	}
	failpoint.Here("removal: journal written")
	return nil
}

// read reads the journal of a removal under way.
func (r *Remover) read(planID string) (Job, error) {
	data, err := os.ReadFile(filepath.Join(r.dir(planID), journalName))
	if err != nil {
		return Job{}, err
	}
	var job Job
	if err := json.Unmarshal(data, &job); err != nil {
		return Job{}, fmt.Errorf("journal %s is damaged: %w", planID, err)
	}
	if job.Version != journalVersion {
		return Job{}, fmt.Errorf("journal %s has version %d, this program knows %d", planID, job.Version, journalVersion)
	}
	if job.Plan.ID != planID {
		return Job{}, fmt.Errorf("journal %s is of another plan", planID)
	}
	for _, m := range job.Moves {
		if !filepath.IsLocal(m.From) || strings.Contains(m.From, "\x00") {
			return Job{}, fmt.Errorf("journal %s names a path outside of the data root: %q", planID, m.From)
		}
	}
	return job, nil
}
