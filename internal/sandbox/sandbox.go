// Package sandbox has the Policy of a sandbox: absolute paths, each with its access, and whether the program may use the network. Without the
// network, a sandbox has a network namespace of its own if the system permits namespaces (actors/child/jail_linux.go asks for it); otherwise the
// filter of system calls of package jail forbids the network, too. Package resolve makes a Policy of a client's sandbox, and package jail enforces a
// Policy. Package sandbox imports next to nothing, because a jail must start
// fast.
package sandbox

import (
	"bytes"
	"encoding/json"
)

// Access is the permission of a program for a path and everything below. A greater Access permits more.
type Access uint8

const (
	Deny  Access = iota // mode 000: opening and listing fail with EACCES. Below a root with Deny, the path does not exist (ENOENT)
	Read                // read only
	Write               // read and write
)

// Policy is a sandbox made absolute for one start. The zero Policy leaves files as they are, and permits no network.
type Policy struct {
	// Files is false if files are as outside: then Root and Paths mean nothing, and the program keeps the
	// mounts and the PID namespace of the server.
	Files bool `json:"files"`
	// Network permits the network of the server.
	Network bool `json:"network"`
	// Root is the access to "/" and everything outside of Paths. Root is Write only if some Path permits less.
	Root Access `json:"root"`
	// Paths are absolute, clean, and without links. No path is twice there, and a directory comes before the paths
	// below. A Path may have the access of its parent: then the jail must keep it in its place.
	Paths []Path `json:"paths"`
	// Links are the symbolic links on the way to Paths, in the order of their paths. No link is twice there. With Root
	// Deny, the jail makes links again if it does not show their directory. Otherwise a program would not find /lib64, a
	// link to usr/lib64.
	Links []Link `json:"links,omitempty"`
}

// Link is a symbolic link as the server has found it.
type Link struct {
	Path   string // absolute, clean, and without links up to its last name
	Target string // as of readlink(2): perhaps relative to the directory of Path
}

// Path is a path of a Policy as the server has found it.
type Path struct {
	Path   string
	Access Access // Read for Missing
	Kind   Kind
	// Dev and Ino identify what the server has found, as of stat(2). The jail refuses to start if something else
	// is there. 0 for Missing, until package placeholder has made the directory.
	Dev uint64
	Ino uint64
}

// Kind says what is at a Path.
type Kind uint8

const (
	Directory Kind = iota
	File           // also a FIFO, a socket or a device
	// Missing is a name that the program may not create. The server makes an empty directory there while the
	// program runs (package placeholder). If the server cannot, the program cannot either.
	Missing
)

// Confines reports whether the program may not write everywhere. A sandbox that seems to confine files, as of
// protocol.Sandbox.Confines, may have "/" as its workspace.
func (p *Policy) Confines() bool { return p.Files && p.Root < Write }

// The JSON of a path is base64, because a path may have any bytes, and a string of JSON may not.
type (
	pathJSON struct {
		Path   []byte `json:"path"`
		Access Access `json:"access"`
		Kind   Kind   `json:"kind"`
		Dev    uint64 `json:"dev"`
		Ino    uint64 `json:"ino"`
	}
	linkJSON struct {
		Path   []byte `json:"path"`
		Target []byte `json:"target"`
	}
)

// decode refuses unknown members, which the decoder around an UnmarshalJSON cannot do.
func decode(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// MarshalJSON keeps every byte of the path.
func (p Path) MarshalJSON() ([]byte, error) {
	return json.Marshal(pathJSON{[]byte(p.Path), p.Access, p.Kind, p.Dev, p.Ino})
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (p *Path) UnmarshalJSON(data []byte) error {
	var j pathJSON
	err := decode(data, &j)
	*p = Path{string(j.Path), j.Access, j.Kind, j.Dev, j.Ino}
	return err
}

// MarshalJSON keeps every byte of the link.
func (l Link) MarshalJSON() ([]byte, error) {
	return json.Marshal(linkJSON{[]byte(l.Path), []byte(l.Target)})
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (l *Link) UnmarshalJSON(data []byte) error {
	var j linkJSON
	err := decode(data, &j)
	*l = Link{string(j.Path), string(j.Target)}
	return err
}
