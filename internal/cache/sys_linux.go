package cache

import (
	"os"

	"golang.org/x/sys/unix"
)

// elsewhere are file systems whose files are not on this machine, or not handled
// by its kernel: what processes share, and locks, cannot be relied on.
var elsewhere = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "SMB",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.V9FS_MAGIC:        "9p",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "GPFS",
	0x786f4256:             "VirtualBox's shared folders",
	0xbacbacbc:             "VMware's shared folders",
}

// remoteFileSystem names the file system of dir if it cannot hold a cache.
func remoteFileSystem(st *unix.Statfs_t) string { return elsewhere[uint32(st.Type)] }

// syncData makes a file's bytes durable.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// lockBytes locks [off, off+n) of a file, against every other open of it, until it is
// closed. ok is false while another has it.
func lockBytes(f *os.File, off, n int64) (ok bool, err error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: n}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN || err == unix.EACCES:
			return false, nil
		default:
			return err == nil, err
		}
	}
}
