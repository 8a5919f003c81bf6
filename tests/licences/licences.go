// Licences prints the licences and notices of the modules that are linked into troupe and its client. Almost all of
// these licences ask for this of people who pass on a binary:
//
//	go run ./tests/licences > THIRD_PARTY
//
// The list is made when somebody needs it, so it never is out of date. The test of this package refuses modules
// whose licence is not among the texts in kinds.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

func main() {
	var all []module
	for _, system := range []string{"linux", "darwin"} { // the client runs on both
		linked, err := modules(system, "./cmd/troupe", "./client")
		if err != nil {
			fmt.Fprintln(os.Stderr, "licences:", err)
			os.Exit(1)
		}
		all = append(all, linked...)
	}
	if err := printNotices(os.Stdout, all); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// A module is a dependency, or the standard library.
type module struct {
	name        string
	root        string   // directory
	directories []string // root, the directories of all packages in use, and those between
}

// modules returns the modules that packages depend on, without troupe itself.
func modules(system string, args ...string) ([]module, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Root,Standard,Module"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	var all []module
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, Root string
			Standard  bool
			Module    *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		var m module
		switch {
		case p.Standard:
			m = module{name: "the standard library of Go", root: p.Root}
			p.Dir = p.Root // its packages have the licence of Go
		case p.Module.Main:
			continue
		default:
			m = module{name: p.Module.Path + " " + p.Module.Version, root: p.Module.Dir}
		}
		all = m.addTo(all, p.Dir)
	}
}

// addTo adds a directory of the module to its entry in all.
func (m module) addTo(all []module, directory string) []module {
	i := slices.IndexFunc(all, func(other module) bool { return other.name == m.name })
	if i < 0 {
		i, all = len(all), append(all, m)
	}
	for ; ; directory = filepath.Dir(directory) {
		if slices.Contains(all[i].directories, directory) {
			return all
		}
		all[i].directories = append(all[i].directories, directory)
		if directory == m.root {
			return all
		}
	}
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.\w+)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^notice(\.\w+)?$`)
)

// files returns the paths of files of the module whose name matches.
func (m module) files(name *regexp.Regexp) (paths []string, err error) {
	for _, directory := range m.directories {
		entries, err := os.ReadDir(directory)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && name.MatchString(e.Name()) {
				paths = append(paths, filepath.Join(directory, e.Name()))
			}
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// licences returns the kinds of the module's licences.
func (m module) licences() (kinds []string, err error) {
	const advice = "use another module, or, if its licence lets everybody use, change and pass on troupe under Apache-2.0, add the text to tests/licences/kinds"
	paths, err := m.files(licenceFile)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(paths, func(path string) bool { return filepath.Dir(path) == m.root }) {
		return nil, fmt.Errorf("%s has no file with a licence in %s: %s", m.name, m.root, advice)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := kindsOf(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w: %s", m.name, path, err, advice)
		}
		kinds = append(kinds, found...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

//go:embed kinds
var kindFiles embed.FS

// known has a pattern for each text of each kind of licence.
var known = readKinds()

func readKinds() map[string][]*regexp.Regexp {
	all := make(map[string][]*regexp.Regexp)
	entries, err := kindFiles.ReadDir("kinds")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		text, err := kindFiles.ReadFile("kinds/" + e.Name())
		if err != nil {
			panic(err)
		}
		for part := range strings.SplitSeq(string(text), "~~~\n") {
			pieces := strings.Split(part, "…")
			for i := range pieces {
				pieces[i] = words(pieces[i])
			}
			all[e.Name()] = append(all[e.Name()], regexp.MustCompile(strings.Join(pieces, `(\pL+ ){0,12}`)))
		}
	}
	return all
}

// words returns the words of a text in lower case, each with a space after it. Digits and signs are left out.
func words(text string) string {
	fields := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	if len(fields) == 0 {
		return ""
	}
	return strings.Join(fields, " ") + " "
}

// Beside the known texts, a licence file has names, years and titles. More words, or words of a rule, may be a condition.
const maxOtherWords = 100

var ofRules = regexp.MustCompile(`\b(not|must|shall|may|only|unless|except|excluding|provided|prohibited|restricted|commercial|terms)\b`)

// kindsOf returns the kinds of the licences in a text. Anything else that may be a condition is an error.
func kindsOf(text string) (kinds []string, err error) {
	rest := words(text)
	for kind, patterns := range known {
		for _, p := range patterns {
			if found := p.ReplaceAllLiteralString(rest, ""); found != rest {
				rest, kinds = found, append(kinds, kind)
			}
		}
	}
	switch rule := ofRules.FindString(rest); {
	case len(kinds) == 0:
		return nil, errors.New("the text is not a known licence")
	case rule != "":
		return nil, fmt.Errorf("beside %s the text has the word %q, which may belong to a condition", strings.Join(kinds, " and "), rule)
	case strings.Count(rest, " ") > maxOtherWords:
		return nil, fmt.Errorf("beside %s the text has %d words, at most %d may be titles and names", strings.Join(kinds, " and "), strings.Count(rest, " "), maxOtherWords)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

// printNotices writes the licences and notices of modules. A module may come twice.
func printNotices(w io.Writer, all []module) error {
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	out.WriteString("troupe contains software of others, under these licences.\n")
	printed := make(map[string]bool) // by name and path
	for _, m := range all {
		paths, err := m.files(licenceFile)
		if err != nil {
			return err
		}
		notices, err := m.files(noticeFile)
		if err != nil {
			return err
		}
		for _, path := range append(paths, notices...) {
			if printed[path] {
				continue
			}
			printed[path] = true
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(m.root, path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "\n== %s: %s\n\n%s\n", m.name, relative, bytes.TrimRight(text, "\n"))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
