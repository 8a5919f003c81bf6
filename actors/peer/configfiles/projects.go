package configfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/b6f6fdd7/troupe/actors/files"
)

const configDir = ".codex"

// projects returns the layers of the directories from the root of the project down to cwd, as far as the
// user trusts them. settings are those of the system and of the user.
func (r *reader) projects(places Places, cwd string, settings map[string]any) (layers []layer, err error) {
	markers, err := rootMarkers(settings)
	if err != nil {
		return nil, err
	}
	trust, err := trustOf(settings)
	if err != nil {
		return nil, err
	}
	root, err := r.projectRoot(cwd, markers)
	if err != nil {
		return nil, err
	}
	checkout := checkoutOf(cwd)
	main := mainCheckout(checkout)
	for _, dir := range between(root, cwd) {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		config := filepath.Join(dir, configDir)
		if info, err := os.Stat(config); err != nil || !info.IsDir() || same(config, places.Codex) || !trust.covers(dir, root, main) {
			continue
		}
		values, err := r.projectFile(config)
		if err != nil {
			return nil, err
		}
		sanitize(values, brokered(settings))
		source := func(dir string) string { return "project (" + filepath.Join(dir, configFile) + ")" }
		if main == "" || main == checkout {
			layers = append(layers, layer{source(config), config, values})
			continue
		}
		// A linked worktree has the hooks of the main checkout, and none of its own.
		delete(values, "hooks")
		layers = append(layers, layer{source(config), config, values})
		relative, err := filepath.Rel(checkout, dir)
		if err != nil {
			return nil, err
		}
		config = filepath.Join(main, relative, configDir)
		if values, err = r.projectFile(config); err != nil {
			return nil, err
		}
		if hooks, ok := values["hooks"]; ok {
			layers = append(layers, layer{source(config), config, map[string]any{"hooks": hooks}})
		}
	}
	return layers, nil
}

// projectFile returns the values of a project's file; none if it does not exist.
func (r *reader) projectFile(dir string) (map[string]any, error) {
	values, err := r.file(filepath.Join(dir, configFile), "project config")
	if values == nil && err == nil {
		values = make(map[string]any)
	}
	return values, err
}

// rootMarkers returns the names of which the root of a project has one.
func rootMarkers(settings map[string]any) (markers []string, err error) {
	value, ok := settings["project_root_markers"]
	if !ok {
		return []string{".git"}, nil
	}
	list, ok := value.([]any)
	for _, entry := range list {
		marker, isText := entry.(string)
		ok = ok && isText
		markers = append(markers, marker)
	}
	if !ok {
		return nil, errors.New("project_root_markers must be an array of strings")
	}
	return markers, nil
}

// projectRoot returns the nearest directory with a marker at or above cwd, else cwd.
func (r *reader) projectRoot(cwd string, markers []string) (string, error) {
	for dir := cwd; ; dir = filepath.Dir(dir) {
		for _, marker := range markers {
			if err := r.ctx.Err(); err != nil {
				return "", err
			}
			if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
				return dir, nil
			}
		}
		if dir == "/" {
			return cwd, nil
		}
	}
}

// between returns the directories from root down to dir.
func between(root, dir string) (all []string) {
	for ; ; dir = filepath.Dir(dir) {
		all = append(all, dir)
		if dir == root || dir == "/" {
			slices.Reverse(all)
			return all
		}
	}
}

// same reports whether two paths name the same directory.
func same(a, b string) bool { return a == b || canonical(a) == canonical(b) }

// canonical returns path without links, or path itself if it cannot be resolved.
func canonical(path string) string {
	if real, err := files.Canonicalize(path); err == nil {
		return real
	}
	return path
}

// trust says of directories whether the user trusts them.
type trust map[string]bool

func trustOf(settings map[string]any) (trust, error) {
	t := make(trust)
	projects, ok := settings["projects"]
	if !ok {
		return t, nil
	}
	table, ok := projects.(map[string]any)
	if !ok {
		return nil, errors.New("projects must be a table")
	}
	for path, entry := range table {
		values, ok := entry.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("projects.%q must be a table", path)
		}
		switch level := values["trust_level"]; level {
		case nil:
		case "trusted", "untrusted":
			t[path] = level == "trusted"
		default:
			return nil, fmt.Errorf("unknown variant `%v`, expected `trusted` or `untrusted` in projects.%q.trust_level", level, path)
		}
	}
	return t, nil
}

// covers reports whether the first of the directories that the user has decided about is trusted.
func (t trust) covers(dirs ...string) bool {
	for _, dir := range dirs {
		for _, path := range []string{canonical(dir), dir} {
			if trusted, ok := t[path]; ok && dir != "" {
				return trusted
			}
		}
	}
	return false
}
