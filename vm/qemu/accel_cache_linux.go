package qemu

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
)

// accelKey is everything that the answer of a probe depends on.
type accelKey struct {
	BootID string `json:"boot_id"` // modules and firmware settings change at a boot
	Kernel string `json:"kernel"`
	QEMU   string `json:"qemu"`
	CPU    string `json:"cpu"`
}

func (b *Backend) accelKey(cpu, version string) (accelKey, error) {
	boot, err1 := b.proc.bootID()
	kernel, err2 := b.proc.kernel()
	return accelKey{BootID: boot, Kernel: kernel, QEMU: version, CPU: cpu}, errors.Join(err1, err2)
}

// accelCache is the content of the cache file.
type accelCache struct {
	Key accelKey  `json:"key"`
	KVM bool      `json:"kvm"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

func (c accelCache) verdict() verdict {
	v := verdict{kvm: c.KVM, why: c.Why}
	if !c.KVM {
		v.hint = "It is tried again after the next restart of this computer. " + nestedHint
	}
	return v
}

// maxCache bounds the cache file, in bytes.
const maxCache = 64 << 10

// loadCache returns the kept answer, if it is one to this question. A damaged file is no answer.
func (b *Backend) loadCache(key accelKey) (accelCache, bool) {
	if b.answer.Key == key {
		return b.answer, true
	}
	var c accelCache
	fi, err := os.Stat(b.config.CacheFile)
	if err != nil || fi.Size() > maxCache || !fi.Mode().IsRegular() {
		return c, false
	}
	data, err := os.ReadFile(b.config.CacheFile)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return accelCache{}, false
	}
	return c, c.Key == key && c.Why != ""
}

// saveCache keeps an answer. When the file cannot be written, the next daemon probes again.
func (b *Backend) saveCache(c accelCache) {
	b.answer = c
	if b.config.CacheFile == "" {
		return
	}
	data, err := json.MarshalIndent(c, "", "\t")
	if err == nil {
		err = atomicfile.Write(b.config.CacheFile, append(data, '\n'), layout.FileMode)
	}
	if err != nil {
		b.log.Warn("the accelerator's answer could not be kept", "err", err)
	}
}
