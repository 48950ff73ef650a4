package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The qcow2 format is described in docs/interop/qcow2.rst of QEMU. An empty overlay is a header and
// three tables; writing them here takes no process and works without qemu-img.
const (
	qcowClusterBits  = 16 // QEMU's default
	qcowCluster      = 1 << qcowClusterBits
	qcowHeaderLength = 104
	qcowMaxBacking   = 1023

	qcowExtBackingFormat = 0xe2792aca
	qcowExtEnd           = 0
)

// writeOverlay makes f, which is empty, a qcow2 version 3 image of size bytes that has nothing of its own yet. What it does not have
// is read from backing, a raw file. The path is for people and their tools (relative: to f's
// directory); a backend names the backing file itself.
func writeOverlay(f interface {
	io.WriterAt
	Truncate(int64) error
}, size int64, backing string) error {
	if size <= 0 || size%512 != 0 {
		return fmt.Errorf("a disk of %d bytes: it takes a multiple of 512", size)
	}
	if !filepath.IsAbs(backing) && filepath.Dir(backing) == "." {
		backing = "." + string(os.PathSeparator) + backing // "a:b" would be a protocol and a name
	}
	if len(backing) > qcowMaxBacking {
		return errors.New("the path of the backing file is too long for a qcow2 overlay")
	}

	// Each entry of the level 1 table stands for one level 2 table, a cluster of 8-byte entries for a cluster each.
	perEntry := int64(qcowCluster) * (qcowCluster / 8)
	l1Entries := (size + perEntry - 1) / perEntry
	l1Clusters := (l1Entries*8 + qcowCluster - 1) / qcowCluster
	const (
		refTable = 1 // cluster numbers; the header is in cluster 0
		refBlock = 2
		l1       = 3
	)
	used := l1 + l1Clusters
	if used > qcowCluster/2 {
		return fmt.Errorf("a disk of %d bytes is too large for a qcow2 overlay", size)
	}

	be := binary.BigEndian
	var ext []byte
	ext = be.AppendUint32(ext, qcowExtBackingFormat)
	ext = be.AppendUint32(ext, uint32(len("raw")))
	ext = append(ext, "raw\x00\x00\x00\x00\x00"...) // padded to 8 bytes
	ext = be.AppendUint32(ext, qcowExtEnd)
	ext = be.AppendUint32(ext, 0)

	h := make([]byte, 0, qcowHeaderLength+len(ext)+len(backing))
	h = append(h, "QFI\xfb"...)
	h = be.AppendUint32(h, 3)                                 // version
	h = be.AppendUint64(h, uint64(qcowHeaderLength+len(ext))) // backing_file_offset
	h = be.AppendUint32(h, uint32(len(backing)))              // backing_file_size
	h = be.AppendUint32(h, qcowClusterBits)                   //
	h = be.AppendUint64(h, uint64(size))                      //
	h = be.AppendUint32(h, 0)                                 // crypt_method
	h = be.AppendUint32(h, uint32(l1Entries))                 // l1_size
	h = be.AppendUint64(h, l1*qcowCluster)                    // l1_table_offset
	h = be.AppendUint64(h, refTable*qcowCluster)              // refcount_table_offset
	h = be.AppendUint32(h, 1)                                 // refcount_table_clusters
	h = be.AppendUint32(h, 0)                                 // nb_snapshots
	h = be.AppendUint64(h, 0)                                 // snapshots_offset
	h = be.AppendUint64(h, 0)                                 // incompatible_features
	h = be.AppendUint64(h, 0)                                 // compatible_features
	h = be.AppendUint64(h, 0)                                 // autoclear_features
	h = be.AppendUint32(h, 4)                                 // refcount_order: 16 bits each
	h = be.AppendUint32(h, qcowHeaderLength)                  // header_length
	h = append(append(h, ext...), backing...)

	refs := make([]byte, 0, 2*used)
	for range used {
		refs = be.AppendUint16(refs, 1)
	}
	// The level 1 table is all zeroes: a hole.
	if err := f.Truncate(used * qcowCluster); err != nil {
		return err
	}
	for _, part := range []struct {
		cluster int64
		data    []byte
	}{{refBlock, refs}, {refTable, be.AppendUint64(nil, refBlock*qcowCluster)}, {0, h}} {
		if _, err := f.WriteAt(part.data, part.cluster*qcowCluster); err != nil {
			return err
		}
	}
	return nil
}
