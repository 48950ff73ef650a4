package control

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
)

// endpoint is the content of the data root's endpoint file: where the daemon of this root listens.
// The place of the socket hangs on the environment (XDG_RUNTIME_DIR, a symbolic link on the way to
// the root), which a login shell, cron and sudo do not share; the root is what they do share.
type endpoint struct {
	Socket string `json:"socket"`
	PID    int    `json:"pid"` // for people only
}

func writeEndpoint(root layout.Root, socket string) error {
	data, err := json.Marshal(endpoint{Socket: socket, PID: os.Getpid()})
	if err != nil {
		return err
	}
	return atomicfile.Write(root.Endpoint(), append(data, '\n'), layout.FileMode)
}

// findSocket is where a front looks for the daemon: where the last one said it listens, else where one
// started now would. The file is only ever a hint; who answers is checked by user ID and by [wire.Health].
func findSocket(root layout.Root, rt layout.Runtime) string {
	data, err := readBounded(root.Endpoint(), 4096)
	if err != nil {
		return rt.ControlSocket()
	}
	var e endpoint
	if json.Unmarshal(data, &e) != nil || !filepath.IsAbs(e.Socket) || layout.CheckSocket(e.Socket) != nil {
		return rt.ControlSocket()
	}
	return e.Socket
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > limit {
		return nil, fmt.Errorf("%s is not what was expected there", path)
	}
	data := make([]byte, fi.Size())
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		err = nil
	}
	return data[:n], err
}
