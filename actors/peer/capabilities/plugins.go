package capabilities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// localVersion is the version of a plugin that is preferred to all others.
	localVersion    = "local"
	installFile     = ".codex-remote-plugin-install.json"
	maxInstallFile  = 16 << 10
	maxRemoteID     = 1 << 10
	installFileForm = 1
)

var errMemory = errors.New("no memory")

// cachedPlugins returns the plugins below cache, by id. complete is false if something is left out.
func cachedPlugins(ctx context.Context, cache string, hold files.Hold) (all []location, complete bool, err error) {
	o := scan
	o.MaxDepth = 1
	held, refused := 0, error(nil)
	walked, err := files.Walk(ctx, cache, o, func(n int) (err error) {
		if hold != nil {
			held += n
			err = hold(n)
			refused = errors.Join(refused, err)
		}
		return err
	})
	defer func() { hold.Take(-held) }()
	switch {
	case refused != nil:
		return nil, false, fmt.Errorf("%w: %w", errMemory, refused)
	case err != nil:
		return nil, false, err
	case len(walked.Errors) > 0:
		return nil, false, errors.New(walked.Errors[0].Message)
	}
	complete = !walked.Truncated
	packages := make(map[string]string) // directories by id
	for _, e := range walked.Entries {
		path, err := protocol.ParseFileURI(e.Path)
		if err != nil || e.Kind != "directory" {
			continue
		}
		relative, err := filepath.Rel(cache, path)
		if marketplace, name, ok := strings.Cut(relative, "/"); err == nil && ok && isPluginName(name) && isName(marketplace) {
			packages[name+"@"+marketplace] = path
		}
	}
	for _, id := range slices.Sorted(maps.Keys(packages)) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		version := activeVersion(ctx, packages[id])
		if version == "" {
			continue
		}
		if len(all) == maxLocations {
			return all, false, nil
		}
		remote, err := remotePluginID(filepath.Join(packages[id], installFile))
		complete = complete && err == nil
		all = append(all, location{
			root:   filepath.Join(packages[id], version),
			plugin: &protocol.InstalledPlugin{ID: id, RemotePluginID: remote, Version: version},
		})
	}
	return all, complete, nil
}

// isName reports whether s is a name of letters, digits, _, - and others.
func isName(s string, others ...rune) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || slices.Contains(others, r))
	})
}

// isPluginName reports whether s is a name of names with dots between them.
func isPluginName(s string) bool {
	return isName(s, '.') && !slices.Contains(strings.Split(s, "."), "")
}

// dirBatch is how many entries of a directory are in memory at a time.
const dirBatch = 1000

// activeVersion returns the version of a plugin that counts; empty: there is none, or ctx is done.
func activeVersion(ctx context.Context, plugin string) (active string) {
	d, err := os.Open(plugin)
	if err != nil {
		return ""
	}
	defer d.Close()
	for err == nil && ctx.Err() == nil {
		var entries []fs.DirEntry
		entries, err = d.ReadDir(dirBatch)
		for _, e := range entries {
			version := e.Name()
			switch {
			case !e.IsDir() || !isName(version, '.', '+') || version == "." || version == "..":
			case version == localVersion:
				return version
			case active == "" || newer(version, active):
				active = version
			}
		}
	}
	if err != io.EOF {
		return ""
	}
	return active
}

// newer reports whether a is a later version than b. Names that are no semantic versions are compared
// as text.
func newer(a, b string) bool {
	if isSemver(a) && isSemver(b) {
		if c := semver.Compare("v"+a, "v"+b); c != 0 {
			return c > 0
		}
	}
	return a > b
}

// isSemver reports whether s is a complete semantic version, such as 1.2.3-rc.1+5.
func isSemver(s string) bool {
	v := "v" + s
	return semver.IsValid(v) && semver.Canonical(v)+semver.Build(v) == v
}

// remotePluginID returns the id of a plugin at its marketplace; nil: there is none.
func remotePluginID(path string) (*string, error) {
	data, err := files.Read(path, maxInstallFile, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var install struct {
		Form int    `json:"schema_version"`
		ID   string `json:"remote_plugin_id"`
	}
	if err := json.Unmarshal(data, &install); err != nil {
		return nil, err
	}
	id := strings.TrimSpace(install.ID)
	if install.Form != installFileForm || id == "" || len(id) > maxRemoteID {
		return nil, fmt.Errorf("%s has form %d and an id of %d bytes", path, install.Form, len(id))
	}
	return &id, nil
}
