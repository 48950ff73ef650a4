package build

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const smallDep = `kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz kernel/fs/jbd2/jbd2.ko.xz kernel/crypto/crc32c-generic.ko.xz
kernel/fs/mbcache.ko.xz:
kernel/fs/jbd2/jbd2.ko.xz: kernel/crypto/crc32c-generic.ko.xz
kernel/crypto/crc32c-generic.ko.xz:
kernel/lib/crc16.ko.xz:
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_pci_modern_dev.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio_pci_modern_dev.ko.xz:
kernel/drivers/virtio/virtio.ko.xz:
kernel/drivers/virtio/virtio_ring.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/net/virtio_net.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/net/dummy.ko.xz:
`

const smallBuiltin = "kernel/drivers/char/virtio_console.ko\n"

func TestModuleOrder(t *testing.T) {
	x, err := parseModules(smallDep, smallBuiltin)
	if err != nil {
		t.Fatal(err)
	}
	files, err := x.order()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, moduleName(f))
	}
	want := []string{"virtio_pci_modern_dev", "virtio", "virtio_ring", "virtio_pci", "virtio_blk", "virtio_net", "virtio_rng",
		"crc32c_generic", "crc16", "mbcache", "jbd2", "ext4"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestModuleOrderRefusals(t *testing.T) {
	for name, dep := range map[string]string{
		"needs itself": "kernel/virtio_pci.ko: kernel/b.ko\nkernel/b.ko: kernel/virtio_pci.ko\n",
		"no module":    strings.ReplaceAll(smallDep, "virtio_net", "other_net"),
		"no colon":     "kernel/virtio_pci.ko\n",
	} {
		x, err := parseModules(dep, smallBuiltin)
		if err == nil {
			_, err = x.order()
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
