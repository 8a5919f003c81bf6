// Package configfiles reads the configuration files of the peer on this machine: of the system, of the
// user and of the projects that the user trusts. A client merges them. A call takes as long as its disk
// does. Source: codex-rs, config/src/loader.
package configfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	configFile       = "config.toml"
	managedFile      = "managed_config.toml"
	requirementsFile = "requirements.toml"
)

// Tests set smaller limits, so these are variables. Both are in bytes.
var (
	// maxFiles bounds all files of an answer.
	maxFiles = 2 << 20
	// maxAnswer bounds all TOML of an answer. TOML can become longer than it was in its file.
	maxAnswer = 4 << 20
)

const (
	// maxDots bounds the keys in one line, and so how deep tables are nested.
	maxDots = 10_000
	// maxValues bounds the keys and tables of a file: the parser compares each key of a table with all others.
	maxValues = 10_000
	// maxKeys bounds the keys in all paths of a request.
	maxKeys = 4_096
)

// Places are the directories of configuration files.
type Places struct {
	Codex  string // of the user: Home
	System string
	Hidden files.Hidden // files that no answer shows
}

// layer is a configuration file, or a part of one.
type layer struct {
	source, baseDir string
	toml            map[string]any
}

// reader reads the files of one call.
type reader struct {
	ctx  context.Context
	hold files.Hold
	hide files.Hidden
	held int
	left int // bytes that files may still have
}

// Read returns the selected parts of all configuration files that count in cwd. CheckPaths has accepted
// p. Read stops when ctx is done. A file that cannot be read is an error.
func Read(ctx context.Context, places Places, cwd string, p protocol.EnvironmentConfigReadParams, hold files.Hold) (config, requirements protocol.ConfigLayers, err error) {
	r := &reader{ctx: ctx, hold: hold, hide: places.Hidden, left: maxFiles}
	defer func() { r.take(-r.held) }()
	local, required, err := r.load(places, cwd)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errMemory) {
			err = fmt.Errorf("failed to load executor-local config: %w", err)
		}
		return config, requirements, err
	}
	room := maxAnswer
	if config, err = project(local, p.ConfigPaths, &room, hold); err != nil {
		return config, requirements, err
	}
	requirements, err = project(required, p.RequirementsPaths, &room, hold)
	return config, requirements, err
}

// CheckPaths returns an error if p selects nothing, or everything, or has more than maxKeys keys.
func CheckPaths(p protocol.EnvironmentConfigReadParams) error {
	if len(p.ConfigPaths)+len(p.RequirementsPaths) == 0 {
		return protocol.WrongParams("at least one config or requirements path is required")
	}
	keys := 0
	for _, path := range slices.Concat(p.ConfigPaths, p.RequirementsPaths) {
		if keys += len(path); len(path) == 0 {
			return protocol.WrongParams("TOML paths must contain at least one key segment")
		}
	}
	if keys > maxKeys {
		return protocol.WrongParams("TOML paths have %d key segments, at most %d: send fewer at once", keys, maxKeys)
	}
	return nil
}

// stack are layers, with the number of those that come before the layers from elsewhere.
type stack struct {
	layers []layer
	system int
}

// load reads all files.
func (r *reader) load(places Places, cwd string) (config, requirements stack, err error) {
	managedPath := filepath.Join(places.System, managedFile)
	managed, err := r.file(managedPath, "config")
	if err != nil {
		return config, requirements, err
	}
	systemPath, userPath := filepath.Join(places.System, configFile), filepath.Join(places.Codex, configFile)
	system, err := r.file(systemPath, "config")
	if err != nil {
		return config, requirements, err
	}
	user, err := r.file(userPath, "config")
	if err != nil {
		return config, requirements, err
	}
	if requirements, err = r.requirements(places, managedPath, managed); err != nil {
		return config, requirements, err
	}
	config = stack{[]layer{
		{"system (" + systemPath + ")", places.System, system},
		{"user (" + userPath + ")", places.Codex, user},
	}, 1}
	projects, err := r.projects(places, cwd, merged(merged(system, user), managed))
	if err != nil {
		return config, requirements, err
	}
	config.layers = append(config.layers, projects...)
	if managed != nil {
		config.layers = append(config.layers, layer{"legacy managed_config.toml (" + managedPath + ")", places.System, managed})
	}
	return config, requirements, nil
}

// requirements returns the layers of what an administrator demands.
func (r *reader) requirements(places Places, managedPath string, managed map[string]any) (s stack, err error) {
	path := filepath.Join(places.System, requirementsFile)
	demanded, err := r.file(path, "requirements")
	if err != nil {
		return s, err
	}
	if demanded != nil {
		s = stack{[]layer{{path, places.System, demanded}}, 1}
	}
	if managed != nil {
		old, err := demands(managed)
		if err != nil {
			return s, err
		}
		s.layers = append(s.layers, layer{managedPath, places.System, old})
	}
	return s, nil
}

// demands returns the requirements that a managed_config.toml stands for.
func demands(managed map[string]any) (map[string]any, error) {
	all := make(map[string]any)
	for _, d := range []struct {
		key, demand   string
		known, always []any
	}{
		{"approval_policy", "allowed_approval_policies", []any{"untrusted", "on-failure", "on-request", "never"}, nil},
		{"approvals_reviewer", "allowed_approvals_reviewers", []any{"user", "auto_review"}, nil},
		{"sandbox_mode", "allowed_sandbox_modes", []any{"read-only", "workspace-write", "danger-full-access"}, []any{"read-only"}},
	} {
		value, ok := managed[d.key]
		_, detailed := value.(map[string]any)
		switch {
		case !ok:
		case d.key == "approvals_reviewer" && (value == "auto_review" || value == "guardian_subagent"):
			all[d.demand] = []any{"auto_review", "user"}
		case contains(d.known, value):
			all[d.demand] = with(d.always, value)
		case detailed && d.key == "approval_policy":
			all[d.demand] = []any{value}
		default:
			//lint:ignore ST1005 the text is the peer's
			return nil, fmt.Errorf("Failed to parse config requirements as TOML: unknown variant `%v` in `%s`", value, d.key)
		}
	}
	return all, nil
}

func contains(known []any, value any) bool {
	text, ok := value.(string)
	return ok && slices.Contains(known, any(text))
}

// with returns list with value at its end, unless value is there.
func with(list []any, value any) []any {
	if contains(list, value) {
		return list
	}
	return append(slices.Clone(list), value)
}

var errMemory = errors.New("no memory")

func (r *reader) take(n int) error {
	if r.hold == nil || n == 0 {
		return nil
	}
	if err := r.hold(n); err != nil {
		return fmt.Errorf("%w: %w", errMemory, err)
	}
	r.held += n
	return nil
}

// file returns the content of a TOML file; nil: it does not exist.
func (r *reader) file(path, what string) (map[string]any, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(format string, a ...any) (map[string]any, error) {
		//lint:ignore ST1005 the text is the peer's
		return nil, fmt.Errorf("Failed to read %s file %s: %s", what, path, fmt.Sprintf(format, a...))
	}
	data, err := r.hide.Read(path, r.left, func(n int) error { return r.take(n) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, errMemory):
		return nil, err
	case err != nil && isRegular(path) && errors.As(err, new(*files.Refusal)):
		return fail("all files of a request together may have at most %d bytes", maxFiles)
	case err != nil:
		return fail("%s", files.Text(err))
	case !utf8.Valid(data):
		return fail("stream did not contain valid UTF-8")
	}
	r.left -= len(data)
	if err := r.take(parsedBytes(data)); err != nil {
		return nil, err
	}
	return parse(path, data)
}

// parsedBytes is how much memory the values of a TOML document take at most, in bytes. A table takes 400
// bytes, and a dot, a key, a header or a brace may make a table. An element of an array takes up to 100 bytes.
func parsedBytes(data []byte) int {
	n := 16 * len(data)
	for _, c := range data {
		switch c {
		case '.', '=', '[', '{':
			n += 400
		case ',':
			n += 100
		}
	}
	return n
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// parse returns the values of a TOML document.
func parse(path string, data []byte) (map[string]any, error) {
	number, values := 0, 0
	for line := range bytes.Lines(data) {
		number++
		values += bytes.Count(line, []byte("="))
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
			values++
		}
		switch {
		case bytes.Count(line, []byte(".")) > maxDots:
			return nil, fmt.Errorf("%s:%d:1: a line has more than %d dots", path, number, maxDots)
		case values > maxValues:
			return nil, fmt.Errorf("%s:%d:1: a file has at most %d keys and tables", path, number, maxValues)
		}
	}
	table := make(map[string]any)
	if err := toml.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &table); err != nil {
		if where, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := where.Position()
			return nil, fmt.Errorf("%s:%d:%d: %w", path, row, column, err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return table, nil
}

// merged returns base with the values of over. Neither changes.
func merged(base, over map[string]any) map[string]any {
	all := make(map[string]any, len(base)+len(over))
	for key, value := range base {
		all[key] = value
	}
	for key, value := range over {
		below, isTable := all[key].(map[string]any)
		above, both := value.(map[string]any)
		if isTable && both {
			value = merged(below, above)
		}
		all[key] = value
	}
	return all
}
