package capabilities

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxLocations = 512
	// The plugins are in directories plugins/cache/<marketplace>/<name>/<version>.
	pluginCache = "plugins/cache"
)

// Warnings of an answer. They name no path, because they are also for clients that may not see the path.
const (
	warnLocations = "some capability locations could not be resolved; discovery may be incomplete"
	warnMetadata  = "some capability metadata could not be loaded; discovery may be incomplete"
	warnLimit     = "capability discovery size limit reached"
)

// Homes are the directories with plugins and skills.
type Homes struct {
	Codex  string       // has plugins/cache and skills
	User   string       // has .agents/skills; empty: unknown
	System string       // has skills
	Hidden files.Hidden // files that no answer shows
}

// location is a directory to look in.
type location struct {
	root   string
	plugin *protocol.InstalledPlugin // ID, RemotePluginID and Version; nil: the directory has skills
}

// Installed returns the plugins and skills that are installed on this machine. Installed stops when ctx
// is done.
func Installed(ctx context.Context, homes Homes, hold files.Hold) (r protocol.CapabilitiesDiscoverResult, err error) {
	locations, complete, err := homes.locations(ctx, hold)
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case errors.Is(err, errMemory):
		return r, err
	case err != nil:
		r.Warnings = []string{"could not prewarm capability discovery: " + kindOf(err)}
		return r, nil
	}
	a := &answer{hidden: homes.Hidden}
	if !complete {
		a.warn(warnLocations)
	}
	for i, at := range locations {
		if info, err := os.Stat(at.root); err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		} else if err != nil {
			a.warn(warnMetadata)
			continue
		}
		if err := a.look(ctx, at, hold); err != nil {
			return r, err
		}
		if a.full() && i+1 < len(locations) {
			a.cut = true
			break
		}
	}
	return a.finish(), nil
}

// locations returns the directories to look in. complete is false if some are left out.
func (h Homes) locations(ctx context.Context, hold files.Hold) (all []location, complete bool, err error) {
	complete = true
	if isDir, err := directory(filepath.Join(h.Codex, pluginCache)); err != nil {
		return nil, false, err
	} else if isDir {
		if all, complete, err = cachedPlugins(ctx, filepath.Join(h.Codex, pluginCache), hold); err != nil {
			return nil, false, err
		}
	}
	roots := []string{filepath.Join(h.Codex, "skills")}
	if h.User != "" {
		roots = append(roots, filepath.Join(h.User, ".agents/skills"))
	}
	roots = append(roots, filepath.Join(h.System, "skills"))
	for i, root := range roots {
		if slices.Contains(roots[:i], root) {
			continue
		}
		if isDir, err := directory(root); err != nil {
			return nil, false, err
		} else if isDir {
			all = append(all, location{root: root})
		}
	}
	if len(all) > maxLocations {
		all, complete = all[:maxLocations], false
	}
	return all, complete, nil
}

// directory reports whether path is a directory. A missing path is no error.
func directory(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// kindOf names the kind of an error as the peer does.
func kindOf(err error) string {
	errno, _ := errors.AsType[syscall.Errno](err)
	switch errno {
	case syscall.EACCES, syscall.EPERM:
		return "PermissionDenied"
	case syscall.ENOENT:
		return "NotFound"
	case syscall.ENOTDIR:
		return "NotADirectory"
	case syscall.ELOOP:
		return "FilesystemLoop"
	case syscall.ENAMETOOLONG:
		return "InvalidFilename"
	}
	return "Other"
}
