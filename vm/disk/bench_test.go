package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bromure.io/tui/vm/disk/disktest"
)

// BenchmarkClone makes disk.img of a base image with 249 MiB of data, durable, by each way that a file
// system has. The apparent sizes show that it is flat in the size of the image.
func BenchmarkClone(b *testing.B) {
	for _, fs := range disktest.FileSystems {
		b.Run(fs, func(b *testing.B) {
			dir := disktest.Mount(b, fs, 2<<30)
			for _, kind := range []Kind{Reflink, Overlay, Copy} {
				if fs == "ext4" && kind == Reflink {
					continue
				}
				for _, gib := range []int64{4, 24, 96} {
					src := filepath.Join(dir, fmt.Sprintf("%s-%d.img", kind, gib))
					b.Run(fmt.Sprintf("%s/%dGiB", kind, gib), func(b *testing.B) {
						disktest.Base(b, src, gib<<30, 249<<20)
						defer os.Remove(src)
						benchmarkClone(b, src, kind)
					})
				}
			}
		})
	}
}

// BenchmarkCreate makes both disks of a workspace from a base of 24 GiB, as a first start does.
func BenchmarkCreate(b *testing.B) {
	for _, fs := range disktest.FileSystems {
		b.Run(fs, func(b *testing.B) {
			dir := disktest.Mount(b, fs, 2<<30)
			src, ws := filepath.Join(dir, "base.img"), filepath.Join(dir, "ws")
			disktest.Base(b, src, 24<<30, 249<<20)
			for b.Loop() {
				if err := os.Mkdir(ws, 0o700); err != nil {
					b.Fatal(err)
				}
				if _, err := Clone(b.Context(), src, filepath.Join(ws, "disk.img"), Options{QCOW2: true}); err != nil {
					b.Fatal(err)
				}
				if err := CreateHome(b.Context(), filepath.Join(ws, "home.img"), 64<<30); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(ws); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func benchmarkClone(b *testing.B, src string, kind Kind) {
	dst := filepath.Join(filepath.Dir(src), "disk.img")
	for b.Loop() {
		if _, err := Clone(b.Context(), src, dst, Options{QCOW2: true, only: kind}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := os.Remove(dst); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
