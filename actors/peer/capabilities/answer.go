package capabilities

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Tests set smaller limits, so these are variables.
var (
	maxAnswer       = 4 << 20 // in bytes as JSON
	maxCapabilities = 2_048   // plugins and skills
)

const (
	maxAnswerWarnings = 64
	// maxQualified bounds the name of a skill with its namespace, in characters.
	maxQualified = 2*maxSkillName + 1
)

// answer is an answer to capabilities/discoverV2 that is under way.
type answer struct {
	r     protocol.CapabilitiesDiscoverResult
	count int  // plugins and skills
	bytes int  // of both, as JSON
	cut   bool // something is left out

	hidden files.Hidden // fixed
}

func (a *answer) warn(text string) {
	if len(a.r.Warnings) < maxAnswerWarnings {
		a.r.Warnings = append(a.r.Warnings, text)
	}
}

func (a *answer) full() bool { return a.count >= maxCapabilities || a.bytes >= maxAnswer }

// look adds the plugin or the skills of a location.
func (a *answer) look(ctx context.Context, at location, hold files.Hold) error {
	held := 0
	found, err := discover(ctx, protocol.CapabilityRoot{Path: protocol.FileURI(at.root)}, newRoom(), a.hidden, func(n int) error {
		held += n
		if hold == nil {
			return nil
		}
		return hold(n)
	})
	defer func() { hold.Take(-held) }() // the answer has its own
	if err != nil {
		return err
	}
	whole := len(found.Warnings) == 0 && found.Error == nil
	if at.plugin == nil {
		skills, valid := skillsOf(found)
		if !whole || !valid {
			a.warn(warnMetadata)
		}
		return a.addSkills(skills, hold)
	}
	if found.Plugin == nil {
		a.warn(warnMetadata)
		return nil
	}
	skills, valid := skillsOf(found)
	if !whole || !valid {
		a.warn(warnMetadata)
	}
	plugin := *at.plugin
	plugin.Root, plugin.Files, plugin.Skills = protocol.FileURI(at.root), *found.Plugin, skills
	return a.addPlugin(plugin, hold)
}

// addPlugin adds a plugin, with as many of its skills as there is room for. The plugin itself counts too.
func (a *answer) addPlugin(plugin protocol.InstalledPlugin, hold files.Hold) error {
	room := maxCapabilities - a.count - 1
	if room < 0 {
		a.cut = true
		return nil
	}
	if len(plugin.Skills) > room {
		a.cut, plugin.Skills = true, plugin.Skills[:room]
	}
	ok, err := a.admit(plugin, 1+len(plugin.Skills), hold)
	if ok {
		a.r.Plugins = append(a.r.Plugins, plugin)
	}
	return err
}

func (a *answer) addSkills(skills []protocol.InstalledSkill, hold files.Hold) error {
	for _, skill := range skills {
		if a.count == maxCapabilities {
			a.cut = true
			break
		}
		ok, err := a.admit(skill, 1, hold)
		if err != nil {
			return err
		}
		if ok {
			a.r.Skills = append(a.r.Skills, skill)
		}
	}
	return nil
}

// admit takes room and memory for a plugin or a skill. If there is no room, a smaller one may still fit.
func (a *answer) admit(entry any, count int, hold files.Hold) (bool, error) {
	size := sizeOf(entry)
	if a.bytes+size > maxAnswer {
		a.cut = true
		return false, nil
	}
	if err := hold.Take(size); err != nil {
		return false, err
	}
	a.count += count
	a.bytes += size
	return true, nil
}

// sizeOf returns the bytes of v as JSON.
func sizeOf(v any) int {
	data, _ := json.Marshal(v) // strings and lists always have JSON
	return len(data)
}

// finish returns the answer, with at most maxAnswer bytes.
func (a *answer) finish() protocol.CapabilitiesDiscoverResult {
	r := &a.r
	slices.SortStableFunc(r.Plugins, func(x, y protocol.InstalledPlugin) int { return strings.Compare(x.ID, y.ID) })
	if size := sizeOf(r); a.cut || size > maxAnswer {
		r.Warnings = slices.Insert(r.Warnings[:min(len(r.Warnings), maxAnswerWarnings-1)], 0, warnLimit)
		if size = sizeOf(r); size > maxAnswer {
			size -= sizeOf(r.Warnings[1:])
			r.Warnings = r.Warnings[:1]
		}
		for ; size > maxAnswer && len(r.Skills) > 0; r.Skills = r.Skills[:len(r.Skills)-1] {
			size -= sizeOf(r.Skills[len(r.Skills)-1])
		}
		for ; size > maxAnswer && len(r.Plugins) > 0; r.Plugins = r.Plugins[:len(r.Plugins)-1] {
			size -= sizeOf(r.Plugins[len(r.Plugins)-1])
		}
	}
	return *r
}

// skillsOf returns the skills of a location. valid is false if a skill is left out.
func skillsOf(found protocol.CapabilityRootDiscovery) (skills []protocol.InstalledSkill, valid bool) {
	valid = true
	names := pluginNames(found.NamespaceManifests)
	for _, skill := range found.Skills {
		path, err := protocol.ParseFileURI(skill.Instructions.Path)
		if err != nil {
			valid = false
			continue
		}
		parsed, err := parseSkill(skill.Instructions.Contents, filepath.Base(filepath.Dir(path)))
		namespace := namespaceOf(path, names)
		if err != nil || namespace != nil && utf8.RuneCountInString(*namespace)+1+utf8.RuneCountInString(parsed.name) > maxQualified {
			valid = false
			continue
		}
		skills = append(skills, protocol.InstalledSkill{
			Name: parsed.name, Namespace: namespace, Description: parsed.description, ShortDescription: parsed.short,
			Path: skill.Instructions.Path, Metadata: skill.Metadata,
		})
	}
	return skills, valid
}

// pluginNames returns the name of each plugin by its directory.
func pluginNames(manifests []protocol.DiscoveredFile) map[string]string {
	names := make(map[string]string)
	for _, manifest := range manifests {
		path, err := protocol.ParseFileURI(manifest.Path)
		if err != nil {
			continue
		}
		plugin := pluginOf(path)
		name, ok := manifestName(manifest.Contents)
		if !ok || names[plugin] != "" {
			continue
		}
		if strings.TrimSpace(name) == "" {
			name = filepath.Base(plugin)
		}
		names[plugin] = name
	}
	return names
}

// manifestName returns the name in a manifest; empty: it has none. Not ok: it is no manifest.
func manifestName(contents string) (name string, ok bool) {
	var manifest map[string]json.RawMessage
	if json.Unmarshal([]byte(contents), &manifest) != nil {
		return "", false
	}
	raw, present := manifest["name"]
	if present && (string(raw) == "null" || json.Unmarshal(raw, &name) != nil) {
		return "", false
	}
	return name, true
}

// namespaceOf returns the name of the nearest plugin around a file; nil: there is none.
func namespaceOf(path string, names map[string]string) *string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if name := names[dir]; name != "" {
			return &name
		}
		if dir == "/" {
			return nil
		}
	}
}
