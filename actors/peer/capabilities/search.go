package capabilities

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Tests set smaller limits, so these are variables. All are in bytes.
var (
	maxFile   = 1 << 20
	maxBundle = 16 << 20 // all files of a root
	// maxContents bounds all files of an answer, as JSON, so that the answer fits a message.
	maxContents = 48 << 20
	// maxWarningBytes bounds all warnings of an answer.
	maxWarningBytes = 2 << 20
)

// maxWarnings bounds the warnings of a root.
const maxWarnings = 1_000

// noRoom is the warning about a file beyond maxContents.
const noRoom = "capability file %s does not fit the answer, which has at most %d bytes of files as JSON: ask for fewer roots at once"

// room is how many bytes an answer may still take.
type room struct{ contents, warnings int }

func newRoom() *room { return &room{maxContents, maxWarningBytes} }

// search is the search below one root.
type search struct {
	hold     files.Hold
	hidden   files.Hidden
	left     *room // in the answer
	bundle   int   // bytes that the root may still take
	refused  error // of hold: the call fails
	warnings []string
}

// take asks for memory. After a refusal, nothing is read any more.
func (s *search) take(n int) error {
	if s.hold == nil || n == 0 {
		return nil
	}
	err := s.hold(n)
	if s.refused == nil {
		s.refused = err
	}
	return err
}

// warn adds a warning, if there is room. A warning may be long: most have a path.
func (s *search) warn(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if len(s.warnings) < maxWarnings && len(text) <= s.left.warnings && s.take(len(text)) == nil {
		s.left.warnings -= len(text)
		s.warnings = append(s.warnings, text)
	}
}

// read returns a text file. Nil: the file does not exist, or a warning says why the file is left out.
func (s *search) read(path string) *protocol.DiscoveredFile {
	if s.refused != nil {
		return nil
	}
	uri := protocol.FileURI(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
		return nil
	case err != nil:
		s.warn("failed to inspect capability file %s: %s", uri, files.Text(err))
		return nil
	case info.Size() > int64(maxFile):
		s.warn("capability file %s exceeds the %d-byte limit", uri, maxFile)
		return nil
	case info.Size() > int64(s.bundle):
		s.warn("capability root bundle exceeds the %d-byte limit", maxBundle)
		return nil
	case info.Size() > int64(s.left.contents):
		s.warn(noRoom, uri, maxContents)
		return nil
	}
	held := 0
	data, err := s.hidden.Read(path, min(maxFile, s.bundle, s.left.contents), func(n int) error {
		held += n
		return s.take(n)
	})
	encoded, problem := files.EncodedLen(string(data)), ""
	switch _, grown := errors.AsType[*files.Refusal](err); {
	case s.refused != nil:
		return nil
	case grown:
		problem = fmt.Sprintf("capability file %s exceeded its read limit", uri)
	case err != nil:
		problem = fmt.Sprintf("failed to read capability file %s: %s", uri, files.Text(err))
	case !utf8.Valid(data):
		problem = fmt.Sprintf("capability file %s is not UTF-8: %s", uri, notUTF8(data))
	case encoded > s.left.contents:
		problem = fmt.Sprintf(noRoom, uri, maxContents)
	}
	if problem != "" {
		s.take(-held)
		s.warn("%s", problem)
		return nil
	}
	// For n bytes, the Hold takes n for the value and 4n/3 for its encoding. Control characters need more.
	s.take(max(len(data), (len(data)+encoded)*3/7) - held)
	s.bundle -= len(data)
	s.left.contents -= encoded
	return &protocol.DiscoveredFile{Path: uri, Contents: string(data)}
}

// notUTF8 says in the words of the peer where data is not UTF-8; empty: data is.
func notUTF8(data []byte) string {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		n, rest := 1, data[i:]
		for n < len(rest) && !utf8.FullRune(rest[:n]) {
			n++
		}
		if !utf8.FullRune(rest[:n]) {
			return fmt.Sprintf("incomplete utf-8 byte sequence from index %d", i)
		}
		return fmt.Sprintf("invalid utf-8 sequence of %d bytes from index %d", max(n-1, 1), i)
	}
	return ""
}

// declared reads the files that the manifest of a plugin names. A manifest without a valid entry for MCP
// servers has them in defaultMCPFile.
func (s *search) declared(root string, plugin *protocol.PluginFiles) {
	var manifest map[string]json.RawMessage
	if json.Unmarshal([]byte(plugin.Manifest.Contents), &manifest) != nil {
		manifest = nil
	}
	mcp, inline := s.declaredPath(root, "mcpServers", manifest, plugin)
	if mcp == "" {
		mcp = filepath.Join(root, defaultMCPFile)
	}
	if !inline {
		plugin.MCPConfig = s.read(mcp)
	}
	if apps, _ := s.declaredPath(root, "apps", manifest, plugin); apps != "" {
		plugin.AppsConfig = s.read(apps)
	}
}

// declaredPath returns the path of a file that the manifest names; empty: none. inline reports whether
// the manifest has an object in place of the path.
func (s *search) declaredPath(root, field string, manifest map[string]json.RawMessage, plugin *protocol.PluginFiles) (path string, inline bool) {
	var value any
	if json.Unmarshal(manifest[field], &value) != nil {
		return "", false
	}
	path, ok := value.(string)
	if !ok {
		_, inline = value.(map[string]any)
		return "", inline
	}
	relative, ok := strings.CutPrefix(path, "./")
	if !ok {
		s.warn("ignoring %s in %s: path must start with `./`", field, plugin.Manifest.Path)
		return "", false
	}
	parts := strings.FieldsFunc(relative, func(r rune) bool { return r == '/' || r == '\\' })
	if relative == "" || relative[0] == '/' || slices.Contains(parts, "..") || strings.ContainsRune(relative, 0) {
		s.warn("ignoring %s in %s: path must remain below the capability root", field, plugin.Manifest.Path)
		return "", false
	}
	return filepath.Join(root, relative), false
}
