package target

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// LocalName is the name of the user's own server. No server of the config file may have this name.
const LocalName = "local"

// A Config is the config file of a user.
type Config struct {
	Default string            `toml:"default"` // the server of commands without --url and --server; "": the user's own
	Servers map[string]Server `toml:"servers"`
}

// A Server is a server of the config file. Paths are absolute, or relative to the directory of the file, or begin
// with ~/.
type Server struct {
	URL string `toml:"url"`
	// TokenFile is a file with the token. TokenCommand is a program, with its arguments, for printing the token.
	// TokenFile and TokenCommand exclude each other. Without both, the token comes from the environment.
	TokenFile    string   `toml:"token_file"`
	TokenCommand []string `toml:"token_command"`
	TLSCA        string   `toml:"tls_ca"`
	TLSCert      string   `toml:"tls_cert"`
	TLSKey       string   `toml:"tls_key"`
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ConfigPath returns the path of the config file: $XDG_CONFIG_HOME/troupe/config.toml. Without XDG_CONFIG_HOME, the
// file is below ~/.config. "": the environment names no home.
func ConfigPath(env func(string) string) string {
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the specification has relative paths ignored
		home := home(env)
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "troupe", "config.toml")
}

// home returns the home of the user; "": the environment names none. Windows names it in USERPROFILE.
func home(env func(string) string) string { return cmp.Or(env("HOME"), env("USERPROFILE")) }

// ReadConfig reads a config file. A missing file counts as an empty file.
func ReadConfig(path, home string) (*Config, error) {
	if path == "" {
		return new(Config), nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return new(Config), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the config file: %w", err)
	}
	return ParseConfig(data, path, home)
}

// ParseConfig parses a config file. Its errors name the path, the line, and for an unknown key the nearest known key.
// home replaces ~ in paths beginning with ~/.
func ParseConfig(data []byte, path, home string) (*Config, error) {
	c := new(Config)
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(c)
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var all []error
		for _, e := range missing.Errors {
			all = append(all, unknownKey(path, &e))
		}
		return nil, errors.Join(all...)
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := e.Position()
		return nil, fmt.Errorf("%s:%d: %s", path, line, strings.TrimPrefix(e.Error(), "toml: "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, s := range c.Servers {
		if err := s.check(name); err != nil {
			return nil, fmt.Errorf("%s: server %q: %w", path, name, err)
		}
		for _, p := range []*string{&s.TokenFile, &s.TLSCA, &s.TLSCert, &s.TLSKey} {
			*p = absolute(*p, filepath.Dir(path), home)
		}
		c.Servers[name] = s
	}
	if c.Default != "" && c.Default != LocalName {
		if _, err := c.Server(c.Default); err != nil {
			return nil, fmt.Errorf("%s: default: %w", path, err)
		}
	}
	return c, nil
}

func (s *Server) check(name string) error {
	switch {
	case !serverName.MatchString(name):
		return errors.New("a name has letters, digits, dots, underscores and dashes, and begins with a letter or digit")
	case name == LocalName:
		return errors.New("this name is for your own server on this machine: choose another name")
	case s.URL == "":
		return errors.New(`url is missing: set it, as in url = "wss://HOST:7766"`)
	case s.TokenFile != "" && len(s.TokenCommand) > 0:
		return errors.New("token_file and token_command are both set: remove one")
	case s.TokenCommand != nil && (len(s.TokenCommand) == 0 || s.TokenCommand[0] == ""):
		return errors.New(`token_command names no program: write it as in token_command = ["pass", "show", "troupe"]`)
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return errors.New("tls_cert and tls_key belong together: set both")
	}
	return nil
}

// Server returns the server with a name.
func (c *Config) Server(name string) (Server, error) {
	s, ok := c.Servers[name]
	if ok {
		return s, nil
	}
	names := slices.Sorted(maps.Keys(c.Servers))
	if near := show.Nearest(name, append(names, LocalName)); near != "" {
		return s, fmt.Errorf("no server has the name %q: did you mean %s?", name, near)
	}
	if len(names) == 0 {
		return s, fmt.Errorf("no server has the name %q: the config file names none; add [servers.%s] with its url", name, name)
	}
	return s, fmt.Errorf("no server has the name %q: there are %s", name, strings.Join(names, ", "))
}

// unknownKey is the error for an unknown key.
func unknownKey(path string, e *toml.DecodeError) error {
	line, _ := e.Position()
	key := e.Key()
	known, where := keysOf(reflect.TypeFor[Config]()), ""
	if len(key) > 2 && key[0] == "servers" {
		known, where = keysOf(reflect.TypeFor[Server]()), " of a server"
	}
	last := key[len(key)-1]
	if key[0] != "servers" {
		last = key[0] // the table, if its name is wrong
	}
	if near := show.Nearest(last, known); near != "" {
		return fmt.Errorf("%s:%d: unknown key %q%s: did you mean %s?", path, line, last, where, near)
	}
	return fmt.Errorf("%s:%d: unknown key %q%s: the keys are %s", path, line, last, where, strings.Join(known, ", "))
}

// keysOf returns the keys of a struct in the config file.
func keysOf(t reflect.Type) (keys []string) {
	for f := range t.Fields() {
		keys = append(keys, f.Tag.Get("toml"))
	}
	return keys
}

func absolute(path, dir, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
