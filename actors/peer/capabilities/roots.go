// Package capabilities looks for plugins and skills in directories. A plugin is a directory with a
// manifest, such as .codex-plugin/plugin.json. A skill is a directory with the file SKILL.md. A call
// takes as long as its disk does. A file that cannot be read becomes a warning, never an error of the
// call. Source: codex-rs/exec-server, capability_discovery and discover_v2.
package capabilities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxRoots       = 128
	skillFile      = "SKILL.md"
	skillMetadata  = "agents/openai.yaml"
	manifestFile   = "plugin.json"
	defaultMCPFile = ".mcp.json"
)

// manifestDirs are the directories of manifests, the first choice first.
var manifestDirs = []string{".codex-plugin", ".claude-plugin", ".cursor-plugin"}

// scan bounds the search below a root.
var scan = protocol.FsWalkOptions{MaxDepth: 6, MaxDirectories: 2_000, MaxEntries: 20_000, FollowDirectorySymlinks: true}

// Roots returns the files of plugins and skills below each root. An error is only for the whole call.
// Roots stops when ctx is done.
func Roots(ctx context.Context, roots []protocol.CapabilityRoot, hidden files.Hidden, hold files.Hold) (r protocol.CapabilityRootsDiscoverResult, err error) {
	if len(roots) > maxRoots {
		return r, files.Refuse(protocol.KindParams, "capability root discovery accepts at most %d roots", maxRoots)
	}
	left := newRoom()
	for _, root := range roots {
		found, err := discover(ctx, root, left, hidden, hold)
		if err != nil {
			return r, err
		}
		r.Roots = append(r.Roots, found)
	}
	return r, nil
}

// discover looks below one root. left is the room in the answer. An error ends the whole call: ctx is
// done, or there is no memory.
func discover(ctx context.Context, root protocol.CapabilityRoot, left *room, hidden files.Hidden, hold files.Hold) (d protocol.CapabilityRootDiscovery, err error) {
	d.ID, d.Path = root.ID, root.Path
	fail := func(format string, a ...any) (protocol.CapabilityRootDiscovery, error) {
		text := fmt.Sprintf(format, a...)
		d.Error = &text
		return d, nil
	}
	path, err := protocol.ParseFileURI(root.Path)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok {
		return fail("failed to inspect capability root %s: %s", root.Path, refused.Text)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fail("failed to inspect capability root %s: %s", root.Path, files.Text(err))
	case !info.IsDir():
		return fail("capability root %s is not a directory", root.Path)
	}
	s := &search{hold: hold, hidden: hidden, left: left, bundle: maxBundle}
	// The walk's own memory is not part of the answer, so it is given back.
	held := 0
	walked, err := files.Walk(ctx, path, scan, func(n int) error {
		held += n
		return s.take(n)
	})
	defer func() { s.take(-held) }()
	switch {
	case ctx.Err() != nil:
		return d, ctx.Err()
	case s.refused != nil:
		return d, s.refused
	case err != nil:
		return fail("failed to scan capability root %s: %s", root.Path, files.Text(err))
	}
	for _, e := range walked.Errors {
		s.warn("failed to scan capability path %s: %s", e.Path, e.Message)
	}
	if walked.Truncated {
		s.warn("capability scan reached its traversal limit (root: %s)", root.Path)
	}
	skills, manifests := sortFound(walked.Entries)
	s.namespaces(path, manifests, &d)
	if d.Plugin != nil {
		s.declared(path, d.Plugin)
	}
	for _, skill := range skills {
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		if instructions := s.read(skill); instructions != nil {
			metadata := s.read(filepath.Join(filepath.Dir(skill), skillMetadata))
			d.Skills = append(d.Skills, protocol.SkillFiles{Instructions: *instructions, Metadata: metadata})
		}
	}
	d.Warnings = s.warnings
	return d, s.refused
}

// sortFound returns the skills by path, and the manifests by the root of their plugin.
func sortFound(entries []protocol.FsWalkEntry) (skills, manifests []string) {
	for _, e := range entries {
		path, err := protocol.ParseFileURI(e.Path)
		if err != nil || e.Kind != "file" {
			continue
		}
		if filepath.Base(path) == skillFile {
			skills = append(skills, path)
		}
		if manifestRank(path) >= 0 {
			manifests = append(manifests, path)
		}
	}
	byURI := func(a, b string) int { return strings.Compare(protocol.FileURI(a), protocol.FileURI(b)) }
	slices.SortFunc(skills, byURI)
	slices.SortFunc(manifests, func(a, b string) int {
		return cmp.Or(byURI(pluginOf(a), pluginOf(b)), cmp.Compare(manifestRank(a), manifestRank(b)))
	})
	return skills, manifests
}

// manifestRank returns the index of a manifest's directory in manifestDirs; negative: no manifest.
func manifestRank(path string) int {
	if filepath.Base(path) != manifestFile {
		return -1
	}
	return slices.Index(manifestDirs, filepath.Base(filepath.Dir(path)))
}

// pluginOf returns the plugin's directory of a manifest.
func pluginOf(manifest string) string { return filepath.Dir(filepath.Dir(manifest)) }

// namespaces reads manifests. The first is that of the root, or else of the nearest plugin around the
// root; the others are below.
func (s *search) namespaces(root string, below []string, d *protocol.CapabilityRootDiscovery) {
	seen := make(map[string]bool)
	at, first := root, s.firstManifest(root)
	if first != nil {
		d.Plugin = &protocol.PluginFiles{Manifest: *first}
	}
	for first == nil && at != "/" {
		at = filepath.Dir(at)
		first = s.firstManifest(at)
	}
	if first != nil {
		seen[at] = true
		d.NamespaceManifests = append(d.NamespaceManifests, *first)
	}
	for _, path := range below {
		if plugin := pluginOf(path); !seen[plugin] {
			seen[plugin] = true
			if manifest := s.read(path); manifest != nil {
				d.NamespaceManifests = append(d.NamespaceManifests, *manifest)
			}
		}
	}
}

// firstManifest returns the manifest of a plugin's directory; nil: there is none.
func (s *search) firstManifest(plugin string) *protocol.DiscoveredFile {
	for _, dir := range manifestDirs {
		if manifest := s.read(filepath.Join(plugin, dir, manifestFile)); manifest != nil {
			return manifest
		}
	}
	return nil
}
