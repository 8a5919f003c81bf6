package rules

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// maxEntries bounds the patterns and directories of an identity.
const maxEntries = 1000

// everybody stands for all identities without lines of their own, and for clients without a credential.
const everybody = "*"

// File has the rules in a file. Its lines are
//
//	# Lines with # and empty lines are skipped.
//	alice  run        /usr/bin/git /opt/tools/**
//	alice  never-run  /opt/tools/old/*
//	alice  cwd        /srv/alice
//	alice  read       /usr/share/doc
//	alice  write      /srv/alice
//	alice  hide       AWS_* *_PROXY
//	alice  sandbox    workspace-write net required
//	*      run        /usr/bin/true
//
// The lines of an identity are its whole rule: lines of * count only for identities without a line. Everything
// else is refused. A blank in a path is written \040, as in fstab(5).
type File struct {
	source linefile.Source[map[string]*Rule]
}

// Open returns the rules in the file at path, which must be right now. If the file is wrong later, the last
// right rules stay in use, and log gets an error. confines says whether the system can keep a path in a
// directory; otherwise / is the only directory that the file may name.
func Open(path string, confines bool, log *slog.Logger) (*File, error) {
	named := func(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
	f := &File{linefile.Source[map[string]*Rule]{
		Paths:  []string{path},
		Unread: named,
		Parse: func(data [][]byte) (map[string]*Rule, error) {
			rules, err := parse(data[0], confines)
			if err != nil {
				return nil, named(path, err)
			}
			return rules, nil
		},
		Told: func(err error) {
			if err != nil {
				log.Error("the policy is wrong; the last right one stays in use", "err", err)
			} else {
				log.Info("the policy is right again", "file", path)
			}
		},
	}}
	if _, _, err := f.source.Get(); err != nil {
		return nil, err
	}
	return f, nil
}

// Of returns the rule of an identity, as the file is now. A nil File has no policy: its rule is nil. Of may wait
// for a disk.
func (f *File) Of(identity string) *Rule {
	if f == nil {
		return nil
	}
	rules, _, _ := f.source.Get() // the last right ones
	for _, name := range []string{identity, everybody} {
		if r := rules[name]; r != nil {
			return r
		}
	}
	return new(Rule)
}

func parse(data []byte, confines bool) (map[string]*Rule, error) {
	all := make(map[string]*Rule)
	entries := make(map[string]int)
	err := linefile.Parse(data, func(words []string) error {
		if len(words) < 3 {
			return fmt.Errorf("want IDENTITY WORD VALUE …, not %q", strings.Join(words, " "))
		}
		identity, word := words[0], words[1]
		r := all[identity]
		if r == nil {
			r = new(Rule)
			all[identity] = r
		}
		for _, value := range words[2:] {
			if err := r.add(word, unescape(value), confines); err != nil {
				return fmt.Errorf("%s %s: %w", word, value, err)
			}
		}
		if entries[identity] += len(words) - 2; entries[identity] > maxEntries {
			return fmt.Errorf("%s has more than %d values", identity, maxEntries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for identity, r := range all {
		if err := r.sandbox.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", identity, err)
		}
	}
	return all, nil
}

// add adds a value of a line.
func (r *Rule) add(word, value string, confines bool) error {
	switch word {
	case Run, NeverRun:
		if err := checkPattern(value); err != nil {
			return err
		}
	case Cwd, Read, Write:
		if err := checkPath(value); err != nil {
			return err
		}
		if base := filepath.Base(value); base == "*" || base == "**" {
			return fmt.Errorf("%s takes directories, not patterns, and all below: write %s", word, filepath.Dir(value))
		}
		if value != "/" && !confines {
			return errors.New("keeping paths in a directory needs openat2(2), which this system lacks (Linux before 5.6) or forbids (seccomp): use / or another system")
		}
	}
	switch word {
	case Run:
		r.run = append(r.run, value)
	case NeverRun:
		r.never = append(r.never, value)
	case Cwd:
		r.cwd = append(r.cwd, value)
	case Write:
		r.write = append(r.write, value)
		r.files = append(r.files, value)
	case Read:
		r.files = append(r.files, value)
	case Hide:
		r.hide = append(r.hide, strings.ToUpper(value))
	case Sandbox:
		return r.sandbox.add(value)
	default:
		return fmt.Errorf("unknown word %q, want %s, %s, %s, %s, %s, %s or %s", word, Run, NeverRun, Cwd, Read, Write, Hide, Sandbox)
	}
	return nil
}

func checkPath(name string) error {
	if strings.HasPrefix(name, "#") {
		return errors.New("a comment needs a line of its own")
	}
	if !filepath.IsAbs(name) || filepath.Clean(name) != name {
		return errors.New("write an absolute path without ., .., a doubled slash, or a slash at its end")
	}
	return nil
}

func checkPattern(pattern string) error {
	if err := checkPath(pattern); err != nil {
		return err
	}
	pattern = strings.TrimSuffix(pattern, "/**")
	if strings.Contains(pattern, "**") {
		return errors.New("** stands only at the end, as in /opt/tools/**")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return errors.New("write a pattern of *, ? and [ranges]")
	}
	return nil
}

// unescape replaces a backslash with three octal digits by the byte, as fstab(5).
func unescape(s string) string {
	var out strings.Builder
	for s != "" {
		if s[0] == '\\' && len(s) >= 4 {
			if n, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				s = s[4:]
				continue
			}
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}
