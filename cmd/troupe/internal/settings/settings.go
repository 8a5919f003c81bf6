// Package settings completes the flags of a command: a flag left out on the command line gets its value from an environment variable, or else from a
// file, or else its default. The flag is the only definition of a setting. The name of the flag is the key in the file, and makes the name of the variable.
//
//   - settings.go: the order of the sources; the variables
//   - file.go: the file
//   - show.go: the values in force, and the page of reference
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/yamlfile"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Section is a part of the settings, in the order in which people read them.
type Section struct {
	Title string
	*pflag.FlagSet
}

// A Source says where the values of settings may come from.
type Source struct {
	Sections []Section
	Prefix   string            // of the names of variables
	File     string            // the setting with the path of the file: not in the file
	NoFile   map[string]string // settings never in a file, and why
	NoOther  []string          // flags for the command line alone, and no settings
	JSON     []string          // settings whose value may be a mapping
	Kept     []byte            // the text of the file; nil: the file is read
	Secret   []string          // settings whose values Show masks
}

// InForce has the values in force.
type InForce struct {
	Source
	file []byte            // the text of the file; nil: there is none
	text map[string]string // as written, of each setting with a source
	from map[string]string // "--NAME", the name of a variable, or FILE:LINE
}

// Variable returns the name of the environment variable of a setting.
func (s *Source) Variable(name string) string {
	return s.Prefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// of calls do with each setting of a section, in their order.
func (s *Source) of(part Section, do func(*pflag.Flag)) {
	part.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(s.NoOther, f.Name) {
			do(f)
		}
	})
}

// each yields all settings, in their order.
func (s *Source) each(yield func(*pflag.Flag) bool) {
	more := true
	for _, part := range s.Sections {
		s.of(part, func(f *pflag.Flag) { more = more && yield(f) })
	}
}

func (s *Source) find(name string) (found *pflag.Flag) {
	for f := range s.each {
		if f.Name == name {
			found = f
		}
	}
	return found
}

// Complete sets the flags left out on the command line: environ, as of os.Environ, goes before the file. Each fault has a line of the error:
// the variable or the place in the file, the fault, and the remedy.
func (s Source) Complete(environ []string) (*InForce, error) {
	in := &InForce{Source: s, text: make(map[string]string), from: make(map[string]string)}
	for f := range s.each {
		if f.Changed {
			in.from[f.Name], in.text[f.Name] = "--"+f.Name, f.Value.String()
		}
	}
	err := in.variables(environ)
	file := s.find(s.File).Value.String()
	if file == "" {
		return in, err
	}
	in.file = s.Kept
	var fileErr error
	if s.Kept == nil {
		in.file, fileErr = yamlfile.Read(file)
	}
	if fileErr != nil {
		return in, errors.Join(err, fileErr)
	}
	values, fileErr := parse(file, in.file)
	for _, v := range values {
		if fault := in.take(v); fault != nil {
			fileErr = errors.Join(fileErr, fmt.Errorf("%s: %w", v.where, fault))
		}
	}
	return in, errors.Join(err, fileErr)
}

// Again completes fresh flags by the same command line, and by the variables and the file of now.
func (in *InForce) Again(fresh Source, environ []string) (*InForce, error) {
	for f := range fresh.each {
		if in.from[f.Name] != "--"+f.Name {
			continue
		}
		f.Changed = true
		now := in.find(f.Name).Value
		if list, ok := now.(pflag.SliceValue); ok {
			f.Value.(pflag.SliceValue).Replace(list.GetSlice())
		} else if err := f.Value.Set(now.String()); err != nil {
			return nil, fmt.Errorf("--%s: %w", f.Name, err)
		}
	}
	return fresh.Complete(environ)
}

// Text returns the text of the file; nil: there is none. A nil InForce has none.
func (in *InForce) Text() []byte {
	if in == nil {
		return nil
	}
	return in.file
}

// Path returns the path of the file; "": there is none. A nil InForce has none.
func (in *InForce) Path() string {
	if in == nil {
		return ""
	}
	return in.find(in.File).Value.String()
}

// Changed reports whether the file has another text by now.
func (in *InForce) Changed() bool {
	if in.Text() == nil {
		return false
	}
	now, err := yamlfile.Read(in.Path())
	return err != nil || !bytes.Equal(now, in.file)
}

// Locate puts the place in the file, or the variable, before an error that begins with a flag.
func (in *InForce) Locate(err error) error {
	if err == nil || in == nil {
		return err
	}
	for f := range in.each {
		if from := in.from[f.Name]; from != "" && from != "--"+f.Name && namesFlag(err.Error(), f.Name) {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return err
}

// namesFlag reports whether a text begins with a flag.
func namesFlag(text, name string) bool {
	rest, ok := strings.CutPrefix(text, "--"+name)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " :,=;"))
}

// FromFile returns where in the file a setting has its value; "": nowhere. A nil InForce has no file.
func (in *InForce) FromFile(name string) string {
	if in == nil {
		return ""
	}
	if from := in.from[name]; strings.Contains(from, ":") {
		return from
	}
	return ""
}

// variables sets flags by variables. An empty variable says nothing.
func (in *InForce) variables(environ []string) (all error) {
	known, ends := make(map[string]*pflag.Flag), []string(nil)
	for f := range in.each {
		known[in.Variable(f.Name)] = f
		ends = append(ends, strings.TrimPrefix(in.Variable(f.Name), in.Prefix))
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, in.Prefix) {
			continue
		}
		f := known[name]
		if f == nil {
			fault := errors.New("there is no such setting")
			if near := show.Nearest(strings.TrimPrefix(name, in.Prefix), ends); near != "" {
				fault = fmt.Errorf("there is no such setting: did you mean %s%s?", in.Prefix, near)
			}
			all = errors.Join(all, fmt.Errorf("%s: %w", name, fault))
			continue
		}
		if text == "" {
			continue
		}
		parts := []string{text}
		if isList(f) {
			parts = strings.Split(text, ",")
		}
		if err := in.set(f, name, parts...); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return all
}

// take sets a flag by a line of the file, unless something else goes before.
func (in *InForce) take(v value) error {
	f := in.find(v.key)
	why, never := in.NoFile[v.key]
	switch {
	case v.key == in.File, slices.Contains(in.NoOther, v.key):
		return fmt.Errorf("%s is for the command line: remove the line", v.key)
	case never:
		return fmt.Errorf("%s cannot be set in a file: %s", v.key, why)
	case f == nil:
		var names []string
		for f := range in.each {
			names = append(names, f.Name)
		}
		if near := show.Nearest(strings.ReplaceAll(v.key, "_", "-"), names); near != "" {
			return fmt.Errorf("there is no setting %q: did you mean %s?", v.key, near)
		}
		return fmt.Errorf("there is no setting %q: docs/CONFIGURATION.md lists them all", v.key)
	case v.fault != nil:
		return fmt.Errorf("%s: %w", v.key, v.fault)
	case v.isList && !isList(f):
		return fmt.Errorf("%s has one value, and not a list", v.key)
	case v.isMap && !slices.Contains(in.JSON, v.key):
		return fmt.Errorf("%s has one value, and not settings of its own", v.key)
	}
	if err := in.set(f, v.where, v.texts...); err != nil {
		return fmt.Errorf("%s: %w", v.key, err)
	}
	return nil
}

// set sets a flag, unless a flag or a variable goes before.
func (in *InForce) set(f *pflag.Flag, from string, texts ...string) error {
	if in.from[f.Name] != "" {
		return nil
	}
	in.from[f.Name], in.text[f.Name] = from, strings.Join(texts, ",")
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(texts)
	}
	if err := f.Value.Set(texts[0]); err != nil {
		return plain(f, texts[0], err)
	}
	return nil
}

func isList(f *pflag.Flag) bool { _, ok := f.Value.(pflag.SliceValue); return ok }

// plain names the form of a value. The errors of package strconv name functions.
func plain(f *pflag.Flag, text string, err error) error {
	want := ""
	switch f.Value.Type() {
	case "int", "int64":
		want = "a whole number, such as 1000"
	case "float64":
		want = "a number, such as 2.5"
	case "duration":
		want = "a time, such as 30s, 5m or 24h"
	case "bool":
		want = "true or false"
	default:
		return fmt.Errorf("%s: %w", strconv.Quote(text), err)
	}
	return fmt.Errorf("%s: write %s", strconv.Quote(text), want)
}

// Differ returns the settings, sorted, with other values in other.
func (in *InForce) Differ(other *InForce) (names []string) {
	for f := range in.each {
		if in.text[f.Name] != other.text[f.Name] {
			names = append(names, f.Name)
		}
	}
	return slices.Sorted(slices.Values(names))
}
