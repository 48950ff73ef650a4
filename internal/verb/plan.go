package verb

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Item is one thing that an owner has and that a verb may remove: a file or a directory with all that is in it, a reservation, an
// entry of a key store. An inventory is a list of items; a plan divides it into what goes and what stays.
type Item struct {
	Owner string `json:"owner"` // who has it: "workspace", "images", "installation"
	Kind  string `json:"kind"`  // the owner's word for the sort of thing
	What  string `json:"what"`  // for people

	// Path is relative to the owner's root, with slashes; empty for what is no file.
	Path string `json:"path,omitempty"`
	// Identity tells the thing from another one that takes its place under the same name. It is empty where being replaced
	// means nothing: a settings file is written anew all the time.
	Identity string `json:"identity,omitempty"`

	Own     int64     `json:"own,omitempty"`     // bytes that the volume gets back
	Shared  int64     `json:"shared,omitempty"`  // bytes that other files go on using
	Changed time.Time `json:"changed,omitzero"`  // when it was last written to
	Count   int       `json:"count,omitempty"`   // of things in it, where that says more
	Unknown bool      `json:"unknown,omitempty"` // the owner does not know what this is
}

// Subject is what a plan is about.
type Subject struct {
	Kind string `json:"kind"` // "workspace", "image", "installation"
	ID   string `json:"id"`   // for machines: it never changes and is never used again
	Name string `json:"name"` // for people
}

// Short is what may be typed instead of the name.
func (s Subject) Short() string {
	if s.Kind == "workspace" && len(s.ID) > 12 {
		return s.ID[:12]
	}
	return s.ID
}

// Plan is a removal: what is shown of it is what is done. Only the daemon's own copy is carried out;
// a front returns its ID.
type Plan struct {
	ID      string    `json:"id"`
	Verb    Verb      `json:"verb"`
	Subject Subject   `json:"subject"`
	Losses  []Item    `json:"losses"`
	Keeps   []string  `json:"keeps,omitempty"`    // what a user would fear for and need not
	WayBack []string  `json:"way_back,omitempty"` // what can bring back what goes; empty: nothing can
	Seen    string    `json:"seen"`               // fingerprint of the inventory that it was made from
	Made    time.Time `json:"made"`
}

// Question is what a front has to ask before a plan is carried out.
type Question string

const (
	AskNothing Question = "nothing" // nothing is lost
	AskYesNo   Question = "yes-no"  // with *no* as the answer that is chosen beforehand
	AskName    Question = "name"    // the subject's name or short ID must be typed
)

// Weigh says how hard it has to be asked.
func (p *Plan) Weigh() Question {
	switch {
	case len(p.Losses) == 0:
		return AskNothing
	case len(p.WayBack) > 0:
		return AskYesNo
	}
	return AskName
}

// Confirms says whether what was typed is the answer to [AskName].
func (p *Plan) Confirms(typed string) bool {
	typed = strings.TrimSpace(typed)
	return typed != "" && (typed == p.Subject.Name || typed == p.Subject.Short() || typed == p.Subject.ID)
}

// Own is the bytes that the volume gets back.
func (p *Plan) Own() (sum int64) {
	for _, l := range p.Losses {
		sum += l.Own
	}
	return sum
}

// Fingerprint is the same for two inventories with the same things in them. Sizes and times do
// not count: they change by themselves.
func Fingerprint(inventory []Item) string {
	lines := make([]string, 0, len(inventory))
	for _, it := range inventory {
		lines = append(lines, strings.Join([]string{it.Owner, it.Kind, it.Path, it.Identity}, "\x00"))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\x01")))
	return hex.EncodeToString(sum[:16])
}
