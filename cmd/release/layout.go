package main

import (
	"cmp"
	"embed"
	"io/fs"
	"slices"
)

// A file of an archive and of packages.
type file struct {
	archive   string      // its path in the archive
	installed string      // its path on a machine with the package; "": packages lack the file
	data      []byte      // in the archive
	packed    []byte      // in packages, if other than data
	mode      fs.FileMode // 0: 0644
	config    bool        // people change the file: an upgrade leaves it alone
}

func (f file) perm() fs.FileMode { return cmp.Or(f.mode, 0o644) }

// inPackage returns the content of the installed file.
func (f file) inPackage() []byte {
	if f.packed != nil {
		return f.packed
	}
	return f.data
}

//go:embed files
var embedded embed.FS

// embeddedFile returns a file of the directory files.
func embeddedFile(name string) []byte {
	data, err := embedded.ReadFile("files/" + name)
	if err != nil {
		panic(err) // the compiler has embedded the file
	}
	return data
}

// layout returns the files from the directory files, and the binary.
func layout(binary []byte) []file {
	return []file{
		{archive: "troupe", installed: "/usr/bin/troupe", data: binary, mode: 0o755},
		{archive: "systemd/troupe.service", installed: "/usr/lib/systemd/system/troupe.service", data: embeddedFile("troupe.service")},
		{archive: "systemd/troupe.socket", installed: "/usr/lib/systemd/system/troupe.socket", data: embeddedFile("troupe.socket")},
		{archive: "systemd/user/troupe.service", installed: "/usr/lib/systemd/user/troupe.service", data: embeddedFile("troupe-user.service")},
		{archive: "systemd/troupe.sysusers", installed: "/usr/lib/sysusers.d/troupe.conf", data: embeddedFile("sysusers.conf")},
		{archive: "serve.yaml", installed: "/etc/troupe/serve.yaml", data: embeddedFile("serve.yaml"), config: true},
		{archive: "container/Containerfile", data: embeddedFile("Containerfile")},
	}
}

// sorted returns the files by their path in the archive, the same order in each run.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.archive, b.archive) })
}
