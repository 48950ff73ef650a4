package removal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/problem"
)

// carry carries out a job whose journal is written. It may be called again for a job that was cut short anywhere.
func (r *Remover) carry(job Job) error {
	trash := r.dir(job.Plan.ID)
	for n, m := range job.Moves {
		if err := r.move(m, filepath.Join(trash, strconv.Itoa(n))); err != nil {
			return fmt.Errorf("move %s into the trash: %w", m.From, err)
		}
		failpoint.Here("removal: moved")
	}
	if err := r.sweep(trash); err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	failpoint.Here("removal: swept")
	for _, name := range job.After {
		f, ok := r.After[name]
		if !ok {
			return fmt.Errorf("finish %s: this program does not know the step %q", job.Plan.Verb, name)
		}
		if err := f(job.Plan.Subject.ID); err != nil {
			return fmt.Errorf("finish %s: %s: %w", job.Plan.Verb, name, err)
		}
		failpoint.Here("removal: " + name)
	}
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	failpoint.Here("removal: journal removed")
	r.Log.Info("removal done", "verb", job.Plan.Verb, "subject", job.Plan.Subject.ID, "plan", job.Plan.ID)
	return atomicfile.SyncDir(r.Root.Trash())
}

// move renames one thing into the trash, unless that was done before or something else has taken its place.
func (r *Remover) move(m Move, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil // moved before the process was cut short
	}
	parent, err := r.walk(filepath.Dir(m.From))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(m.From)
	fi, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.Identity != "" && Identity(fi) != m.Identity {
		r.Log.Warn("not removed: something else has taken its place", "path", m.From)
		return nil
	}
	if err := rename(parent, name, to); err != nil {
		return err
	}
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return errors.Join(dir.Sync(), atomicfile.SyncDir(filepath.Dir(to)))
}

// walk opens a directory below the data root without following a symbolic link: os.Root alone would follow those that stay inside.
func (r *Remover) walk(rel string) (*os.Root, error) {
	at, err := os.OpenRoot(string(r.Root))
	if err != nil {
		return nil, err
	}
	for _, name := range components(rel) {
		fi, err := at.Lstat(name)
		if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s is not a directory (links are not followed)", name)
		}
		var next *os.Root
		if err == nil {
			next, err = at.OpenRoot(name)
		}
		if err == nil {
			// Between the look and the opening it may have been replaced by a link.
			var opened fs.FileInfo
			if opened, err = next.Stat("."); err == nil && !os.SameFile(fi, opened) {
				err = fmt.Errorf("%s was replaced meanwhile", name)
			}
			if err != nil {
				next.Close()
			}
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func components(rel string) []string {
	rel = filepath.Clean(rel)
	if rel == "." {
		return nil
	}
	var parts []string
	for rel != "" && rel != "." {
		dir, name := filepath.Split(rel)
		parts = append([]string{name}, parts...)
		rel = filepath.Clean(dir)
		if dir == "" {
			break
		}
	}
	return parts
}

// sweep removes what was moved, the journal last of all by its caller. Links are removed, never followed.
func (r *Remover) sweep(trash string) error {
	root, err := os.OpenRoot(trash)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == journalName || atomicfile.IsTemp(e.Name()) {
			continue
		}
		if err := root.RemoveAll(e.Name()); err != nil {
			return err
		}
		failpoint.Here("removal: thing removed")
	}
	return nil
}

// Recover finishes every removal that was begun. It is called before anything else touches the data root. A
// journal that cannot be finished is left for the next time and reported.
func (r *Remover) Recover() error {
	entries, err := os.ReadDir(r.Root.Trash())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for removals that were begun: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		job, err := r.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			// The directory was made and the journal was not: nothing was moved into it.
			errs = append(errs, os.RemoveAll(r.dir(e.Name())))
			continue
		}
		if err == nil {
			err = r.resume(job)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// resume finishes a job of an earlier daemon. When that could not finish it either, its subject may have come into use
// since: then it waits.
func (r *Remover) resume(job Job) error {
	v, subject := job.Plan.Verb, job.Plan.Subject
	o, err := r.Owner(v)
	if err != nil {
		return err
	}
	release, err := o.Hold(context.Background(), v, subject.ID)
	switch {
	case err == nil:
		defer release()
	case problem.KindOf(err) == problem.NotFound: // the subject itself is in the trash
	default:
		return fmt.Errorf("%s %q, which was cut short, waits: %w", v, subject.Name, err)
	}
	r.Log.Info("finish a removal that was cut short", "verb", v, "subject", subject.ID)
	return r.finish(job)
}
