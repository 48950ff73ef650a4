package vm

import "strings"

// CheckpointOf is the checkpoint that a path below a workspace's directory belongs to, empty when it belongs to none.
func CheckpointOf(path string) string {
	rest, ok := strings.CutPrefix(path, "checkpoints/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
