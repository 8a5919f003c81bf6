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
	// maxContents bounds all files of an answer. With every byte escaped, the answer still fits a message.
	maxContents = 32 << 20
)

// maxWarnings bounds the warnings of a root.
const maxWarnings = 1_000

// search is the search below one root.
type search struct {
	hold     files.Hold
	left     *int  // bytes that the answer may still take
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

func (s *search) warn(format string, a ...any) {
	if len(s.warnings) < maxWarnings {
		s.warnings = append(s.warnings, fmt.Sprintf(format, a...))
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
	case info.Size() > int64(*s.left):
		s.warn("capability file %s does not fit the answer, which has at most %d bytes of files: ask for fewer roots at once", uri, maxContents)
		return nil
	}
	held := 0
	data, err := files.Read(path, min(maxFile, s.bundle, *s.left), func(n int) error {
		held += n
		return s.take(n)
	})
	problem := ""
	switch _, grown := errors.AsType[*files.Refusal](err); {
	case s.refused != nil:
		return nil
	case grown:
		problem = fmt.Sprintf("capability file %s exceeded its read limit", uri)
	case err != nil:
		problem = fmt.Sprintf("failed to read capability file %s: %s", uri, files.Text(err))
	default:
		if problem = notUTF8(data); problem != "" {
			problem = fmt.Sprintf("capability file %s is not UTF-8: %s", uri, problem)
		}
	}
	if problem != "" {
		s.take(-held)
		s.warn("%s", problem)
		return nil
	}
	s.take(len(data) - held)
	s.bundle -= len(data)
	*s.left -= len(data)
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
