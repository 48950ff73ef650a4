package store

import (
	"fmt"
	"slices"
	"strings"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// MinPrefix is how many digits of an ID a reference has at least.
const MinPrefix = 4

const hintList = "bromure-cli workspaces ls lists them."

// Resolve finds the workspace that a user means: by its full ID, its name (in any case and
// normalisation form) or the first digits of its ID, in this order. Damaged workspaces are found by ID, too.
func (s *Store) Resolve(ref string) (vm.ID, error) {
	entries, err := s.List()
	if err != nil {
		return "", err
	}
	return resolve(entries, ref)
}

func resolve(entries []Entry, ref string) (vm.ID, error) {
	if ref == "" {
		return "", problem.New(problem.Usage, "a workspace must be named", hintList)
	}
	key := vm.Name(ref).Key()
	ways := []func(Entry) bool{
		func(e Entry) bool { return string(e.ID) == ref },
		func(e Entry) bool { return e.Workspace.Name != "" && e.Workspace.Name.Key() == key },
		func(e Entry) bool {
			return len(ref) >= MinPrefix && strings.HasPrefix(string(e.ID), strings.ToLower(ref))
		},
	}
	for _, fits := range ways {
		var found []Entry
		for _, e := range entries {
			if fits(e) {
				found = append(found, e)
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0].ID, nil
		}
		return "", problem.New(problem.Usage, fmt.Sprintf("%.100q may mean %s", ref, describe(found)), "Give more digits of the ID.")
	}
	hint := hintList
	if near := nearNames(entries, key); len(near) > 0 {
		hint = "Did you mean " + strings.Join(near, " or ") + "? " + hintList
	}
	return "", problem.New(problem.NotFound, fmt.Sprintf("there is no workspace %.100q", ref), hint)
}

// describe names up to five candidates.
func describe(found []Entry) string {
	var b strings.Builder
	for i, e := range found {
		if i == 5 {
			fmt.Fprintf(&b, " or %d others", len(found)-i)
			break
		}
		if i > 0 {
			b.WriteString(" or ")
		}
		fmt.Fprintf(&b, "%s (%q)", e.ID.Short(), e.Workspace.Name)
	}
	return b.String()
}

// nearNames are up to three names that the user may have meant: those that contain the key, and those that
// differ from it by a slip or two of the fingers.
func nearNames(entries []Entry, key string) []string {
	var near []string
	for _, e := range entries {
		name := e.Workspace.Name.Key()
		if name == "" {
			continue
		}
		slips := min(2, len([]rune(key))/3)
		if len(key) >= 3 && strings.Contains(name, key) || distance([]rune(name), []rune(key)) <= slips {
			near = append(near, fmt.Sprintf("%q", e.Workspace.Name))
		}
	}
	slices.Sort(near)
	return near[:min(3, len(near))]
}

// distance is Levenshtein's. What is much longer than a name is not compared.
func distance(a, b []rune) int {
	if len(a) > 4*vm.MaxNameRunes || len(b) > 4*vm.MaxNameRunes {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		left, diagonal := i+1, i
		for j, y := range b {
			cost := diagonal
			if x != y {
				cost = 1 + min(diagonal, row[j+1], left)
			}
			diagonal, row[j] = row[j+1], left
			left = cost
		}
		row[len(b)] = left
	}
	return row[len(b)]
}
