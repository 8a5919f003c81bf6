package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pack writes the deb and the rpm of an architecture with nfpm. nfpm has a go.mod of its own: in the go.mod of troupe, nfpm would raise the versions
// of modules in the binary.
func (s source) pack(ctx context.Context, o options, work, arch string, files []file) error {
	stage := filepath.Join(work, "package-"+arch)
	if err := os.Mkdir(stage, 0o755); err != nil {
		return err
	}
	put := func(name string, data []byte) (string, error) {
		path := filepath.Join(stage, name)
		return path, os.WriteFile(path, data, 0o644)
	}
	type info struct {
		Owner string    `json:"owner,omitempty"`
		Group string    `json:"group,omitempty"`
		Mode  uint32    `json:"mode"`
		MTime time.Time `json:"mtime"`
	}
	type content struct {
		Src  string `json:"src,omitempty"`
		Dst  string `json:"dst"`
		Type string `json:"type,omitempty"`
		Info info   `json:"file_info"`
	}
	var contents []content
	for i, f := range sorted(files) {
		if f.installed == "" {
			continue
		}
		path, err := put(fmt.Sprint(i), f.inPackage())
		if err != nil {
			return err
		}
		c := content{Src: path, Dst: f.installed, Info: info{Mode: uint32(f.perm()), MTime: s.date}}
		if f.config {
			c.Type = "config|noreplace"
		}
		contents = append(contents, c)
	}
	// Files with secrets may be here.
	contents = append(contents, content{Dst: "/etc/troupe", Type: "dir", Info: info{Mode: 0o755, MTime: s.date}})
	scripts := make(map[string]string)
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		path, err := put(name, embeddedFile(name+".sh"))
		if err != nil {
			return err
		}
		scripts[name] = path
	}
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"name": "troupe", "arch": arch, "platform": "linux", "version": s.version, "release": "1", "section": "admin", "priority": "optional",
		"maintainer": "the authors of troupe <https://" + module + ">", "homepage": "https://" + module, "license": "Apache-2.0", "mtime": s.date,
		"description": "A supervisor of processes\nA server runs programs for clients that may lose their connection. The programs go on, and no output is lost.",
		"recommends":  []string{"systemd"}, "contents": contents, "scripts": scripts,
		"rpm": map[string]any{"group": "System Environment/Daemons", "summary": "A supervisor of processes", "compression": "gzip", "buildhost": "reproducible"},
	})
	if err != nil {
		return err
	}
	path, err := put("nfpm.yaml", config)
	if err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(o.out, fmt.Sprintf("troupe-%s-linux-%s.%s", s.version, arch, kind))
		if _, err := run(ctx, s.root, s.environ("GOFLAGS=-trimpath"), "go", "tool", "-modfile="+nfpmModules, "nfpm", "package", "--config", path, "--packager", kind, "--target", target); err != nil {
			return err
		}
	}
	return nil
}

// nfpmModules is the go.mod of nfpm, below the root of the source.
const nfpmModules = "cmd/release/nfpm.mod"
