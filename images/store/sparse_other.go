//go:build !linux

package store

import "os"

// nextData says that all is data: it is only slower.
func nextData(_ *os.File, from, size int64) (start, end int64, err error) { return from, size, nil }
