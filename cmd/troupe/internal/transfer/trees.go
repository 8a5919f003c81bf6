package transfer

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/b6f6fdd7/troupe/client"
)

// Local is a directory here. No link leads a method out of the directory.
type Local struct{ *os.Root }

// OpenLocal opens a directory.
func OpenLocal(dir string) (Local, error) {
	root, err := os.OpenRoot(dir)
	return Local{root}, err
}

// Mkdir makes a directory with the mode of the umask.
func (l Local) Mkdir(name string) error { return l.Root.Mkdir(name, 0o777) }

// SetMetadata sets the mode and the time of a directory.
func (l Local) SetMetadata(name string, info fs.FileInfo) error {
	if err := l.Chmod(name, info.Mode().Perm()); err != nil {
		return err
	}
	return l.Chtimes(name, info.ModTime(), info.ModTime())
}

// Create makes a file with a temporary name in the directory of the file.
func (l Local) Create(name string, info fs.FileInfo) (File, error) {
	base := path.Base(name)
	temp := path.Join(path.Dir(name), "."+base[:min(len(base), 200)]+".troupe-"+rand.Text()[:8])
	f, err := l.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &localFile{File: f, root: l.Root, temp: temp, name: name, info: info}, nil
}

type localFile struct {
	*os.File
	root       *os.Root
	temp, name string
	info       fs.FileInfo
}

func (f *localFile) Close() error {
	err := f.File.Chmod(f.info.Mode().Perm())
	if closing := f.File.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = f.root.Chtimes(f.temp, f.info.ModTime(), f.info.ModTime())
	}
	if err == nil {
		err = f.root.Rename(f.temp, f.name)
	}
	if err != nil {
		f.root.Remove(f.temp)
	}
	return err
}

func (f *localFile) Abort() {
	f.File.Close()
	f.root.Remove(f.temp)
}

// Here has the files of this machine, to copy from. Names are paths.
type Here struct{}

// Lstat describes a file, a directory or a link.
func (Here) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// Stat describes a file or a directory, and follows links.
func (Here) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// ReadDir lists a directory.
func (Here) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// ReadLink returns the target of a link.
func (Here) ReadLink(name string) (string, error) { return os.Readlink(name) }

// Open opens a file. It does not wait for the other end of a FIFO.
func (Here) Open(name string) (fs.File, error) {
	return os.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// mode returns the mode of a copy on a server. Windows gives its files mode 666, whoever may write them: the copy has 644.
func mode(info fs.FileInfo) fs.FileMode {
	if runtime.GOOS == "windows" {
		return info.Mode().Perm() &^ 0o022
	}
	return info.Mode().Perm()
}

// Remote has the files of a server, to copy to.
type Remote struct{ *client.FS }

// Create makes a file, and replaces a link at the name.
func (r Remote) Create(name string, info fs.FileInfo) (File, error) {
	w, err := r.FS.Create(name, &client.WriteOptions{Mode: mode(info), ModTime: info.ModTime(), NoFollow: true})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// SetMetadata sets the mode and the time of a directory.
func (r Remote) SetMetadata(name string, info fs.FileInfo) error {
	if err := r.Chmod(name, mode(info)); err != nil {
		return err
	}
	return r.Chtimes(name, info.ModTime())
}
