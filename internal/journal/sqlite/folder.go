package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// prepareFile makes the folder (0700) and an empty file (0600) where they are missing, durably, and refuses
// places where a journal is not safe. Repeatable.
func prepareFile(path string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return folderError(folder, "the state folder cannot be made", err)
	}
	if err := checkFolder(folder); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return folderError(path, "expected a file, found a symbolic link", err)
	}
	if err != nil {
		return folderError(path, "the journal cannot be opened for writing", err)
	}
	defer f.Close()
	if err := tighten(f); err != nil {
		return err
	}
	return syncFolders(folder)
}

// tighten takes away what others may do with the file: it holds paths, tasks and output.
func tighten(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return folderError(f.Name(), "the journal cannot be examined", err)
	}
	if !st.Mode().IsRegular() {
		return folderError(f.Name(), "expected a regular file", nil)
	}
	if st.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := f.Chmod(0o600); err != nil {
		return folderError(f.Name(), "others can read the journal and that cannot be changed", err)
	}
	return nil
}

func checkFolder(folder string) error {
	st, err := os.Stat(folder)
	if err != nil {
		return folderError(folder, "the state folder cannot be examined", err)
	}
	if !st.IsDir() {
		return folderError(folder, "expected a folder", nil)
	}
	if st.Mode().Perm()&0o002 != 0 {
		return &sallyport.Error{Op: "open journal", Code: sallyport.CodeDenied, Subject: folder, Message: "everybody can write in the state folder, so anybody could replace the journal", Hint: "chmod 700 " + folder}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return folderError(folder, "the state folder cannot be examined", err)
	}
	return checkFileSystem(folder, int64(fs.Type))
}

// networkFS are file systems on which neither SQLite's locks nor its shared memory can be relied on, and
// where a holder on another host would look like one of another boot. Numbers: linux/magic.h.
var networkFS = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS", unix.AFS_SUPER_MAGIC: "AFS", unix.CEPH_SUPER_MAGIC: "Ceph",
}

func checkFileSystem(folder string, magic int64) error {
	name, bad := networkFS[magic]
	if !bad {
		return nil
	}
	return &sallyport.Error{Op: "open journal", Code: sallyport.CodeUnsupported, Subject: folder, Message: "the state folder is on " + name + ", where the journal's locks do not hold", Hint: "name a state folder on a local disk"}
}

// syncFolders makes the names durable: without it a power cut could take the file of an acknowledged event.
func syncFolders(folder string) error {
	for _, dir := range []string{folder, filepath.Dir(folder)} {
		f, err := os.Open(dir)
		if errors.Is(err, os.ErrPermission) && dir != folder {
			continue // a parent that we may not read is not one that we made
		}
		if err != nil {
			return folderError(dir, "the folder cannot be synced", err)
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return folderError(dir, "the folder cannot be synced", err)
		}
	}
	return nil
}

func folderError(subject, message string, err error) error {
	e := &sallyport.Error{Op: "open journal", Code: sallyport.CodeUnavailable, Subject: subject, Message: message, Err: err,
		Hint: "check the owner and mode of the folder, or name another state folder"}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Code, e.Hint = sallyport.CodeExhausted, "free space in "+subject
	case errors.Is(err, unix.EROFS):
		e.Hint = fmt.Sprintf("%s is on a read-only file system: remount it, or name another state folder", subject)
	}
	return e
}
