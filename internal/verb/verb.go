// Package verb is the catalogue of what a user can do: keys, commands, help and tests derive from
// it. It imports nothing of ours.
package verb

// Verb names a user action.
type Verb string

const (
	Create     Verb = "create"
	Start      Verb = "start"
	Stop       Verb = "stop"
	Kill       Verb = "kill"
	Reboot     Verb = "reboot"
	Exec       Verb = "exec"
	Attach     Verb = "attach"
	Logs       Verb = "logs"
	Describe   Verb = "describe"
	Keep       Verb = "keep" // an attached throw-away: it does not end with its front any more
	Reset      Verb = "reset"
	EraseHome  Verb = "erase-home"
	Delete     Verb = "delete"
	ImageBuild Verb = "image-build"
	ImageRm    Verb = "image-rm"
	ImagePrune Verb = "image-prune"
	Uninstall  Verb = "uninstall"
)

// Row is what the catalogue says of a verb.
type Row struct {
	Verb    Verb
	Noun    string // what it acts on: "workspace", "image"
	Title   string // for menus and help, an imperative
	Removes bool   // whether it can remove something of the user's; such a verb goes through a plan
}

// Catalogue lists every verb once, in the order in which help shows them.
var Catalogue = []Row{
	{Create, "workspace", "Create a workspace", false},
	{Start, "workspace", "Start its machine", false},
	{Attach, "workspace", "Attach to a console", false},
	{Exec, "workspace", "Run a command in it", false},
	{Stop, "workspace", "Stop its machine in good order", false},
	{Kill, "workspace", "End its machine at once", false},
	{Reboot, "workspace", "Restart its system", false},
	{Logs, "workspace", "Show its logs", false},
	{Describe, "workspace", "Show all about it", false},
	{Keep, "workspace", "Let it run on without its front", false},
	{Reset, "workspace", "Reset its system disk to the base image", true},
	{EraseHome, "workspace", "Erase its home", true},
	{Delete, "workspace", "Delete it with everything that it has", true},
	{ImageBuild, "image", "Build a base image", false},
	{ImageRm, "image", "Delete a base image", true},
	{ImagePrune, "image", "Delete the base images that no workspace uses", true},
	{Uninstall, "installation", "Delete everything that the program keeps", true},
}

// Find is the row of a verb.
func Find(v Verb) (Row, bool) {
	for _, r := range Catalogue {
		if r.Verb == v {
			return r, true
		}
	}
	return Row{}, false
}
