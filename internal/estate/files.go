package estate

import (
	"os"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// Holder keeps the descriptors of an estate. A holder.Server is a Holder.
type Holder interface {
	// KeepNoted keeps descriptors by name under an id; the caller's own stay open.
	KeepNoted(id, note string, files map[string]int) error
	// Drop closes the holder's descriptors with these names. Unknown names do not matter.
	Drop(id string, names ...string) error
}

// fileName begins the names of the files of owners at the holder.
const fileName = "file "

// KeepFile has the holder keep the file of an owner. The owner's name is unique.
func (e *Estate) KeepFile(owner string, f *os.File) (err error) {
	nonblock.Control(f, func(fd uintptr) { err = e.holder.KeepNoted("", "", map[string]int{fileName + owner: int(fd)}) })
	return err
}

// File returns the file of an owner of an earlier server; nil: there is none. The file is the caller's from now on, and the holder keeps it.
func (e *Estate) File(owner string) *os.File {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.files[owner]
	delete(e.files, owner)
	return f
}

// DropFile has the holder close the file of an owner.
func (e *Estate) DropFile(owner string) {
	e.holder.Drop("", fileName+owner) // fails at the end of the holder, which closes all files
}
