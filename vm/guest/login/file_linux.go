package login

import "syscall"

func identity(st *syscall.Stat_t) file {
	return file{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), changed: st.Ctim.Nano()}
}
