// Package build makes base images on this host: it fetches a distribution's packages with mmdebstrap, turns
// the tree that they make into a workspace's system, and writes the four files of an image. Read [Run] first.
//
// Everything between the packages and the files is done by this program on a [tree] in memory, so
// that it needs no privilege and the same packages always give the same bytes, whoever builds.
package build
