//go:build unix

package ring

import "syscall"

// openFlags: links are not followed, and a FIFO in the file's place does not make an open wait.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
