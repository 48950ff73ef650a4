package initd

import "slices"

// lostFound is the directory that mke2fs makes and e2fsck makes anew when it needs it. Nobody misses it in a home.
const lostFound = "lost+found"

// freshHome says whether a home without our mark was never used: it holds nothing but what mke2fs and a first boot that was
// cut short leave there.
func freshHome(home, skel []string) bool {
	for _, name := range home {
		if name != lostFound && !isTemp(name) && !slices.Contains(skel, name) {
			return false
		}
	}
	return true
}

// tempPrefix begins the names of files that are being copied into a home.
const tempPrefix = ".bromure-new-"

func isTemp(name string) bool {
	return len(name) > len(tempPrefix) && name[:len(tempPrefix)] == tempPrefix
}
