package main

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// module is the path of troupe's module.
const module = "github.com/b6f6fdd7/troupe"

// A source is a source tree, and the facts of its release.
type source struct {
	root    string    // directory
	version string    // as in the names of files: 1.2.3
	full    string    // as troupe version prints, with the commit: 1.2.3+COMMIT
	tagged  bool      // the version has its section in the changelog; else the section is Unreleased
	date    time.Time // of everything in the release
}

// aVersion is a semantic version, without the plus sign and the commit: the release adds them.
var aVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// look finds the source tree, the version and the date of a release.
func look(ctx context.Context, o options) (s source, err error) {
	ask := func(name string, args ...string) (text string) {
		if err == nil {
			text, err = run(ctx, cmp.Or(s.root, o.root), nil, name, args...)
		}
		return strings.TrimSpace(text)
	}
	s.root = ask("go", "list", "-m", "-f", "{{.Dir}}", module)
	commit, changed := ask("git", "rev-parse", "--short=12", "HEAD"), ask("git", "status", "--porcelain")
	epoch := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), ask("git", "log", "-1", "--format=%ct"))
	if err != nil {
		return s, err
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	s.date = time.Unix(seconds, 0).UTC()
	if changed != "" {
		if !o.dirty {
			return s, fmt.Errorf("these files are not committed: commit them, or allow them with --dirty\n%s", changed)
		}
		commit += ".dirty"
	}
	tag, noTag := run(ctx, s.root, nil, "git", "describe", "--exact-match", "--match", "v[0-9]*", "HEAD")
	s.version = cmp.Or(o.version, strings.TrimPrefix(strings.TrimSpace(tag), "v"))
	s.tagged = o.version != "" || noTag == nil
	if s.version == "" {
		s.version = fmt.Sprintf("0.0.0-dev.%s.%s", s.date.Format("20060102150405"), commit)
	}
	if !aVersion.MatchString(s.version) {
		return s, fmt.Errorf("the version %q is not one as 1.2.3 or 1.2.3-rc.1", s.version)
	}
	if s.full = s.version; s.tagged {
		s.full += "+" + commit
	}
	return s, nil
}

// environ is the environment of commands whose output is part of the release.
func (s source) environ(more ...string) []string {
	return append([]string{fmt.Sprint("SOURCE_DATE_EPOCH=", s.date.Unix()), "TZ=UTC", "LC_ALL=C"}, more...)
}

// tags leave out gRPC's page of traces, which nothing serves: its templates would add 5 MB.
const tags = "grpcnotrace"

// build builds the static, stripped binary for an architecture, and returns its path.
func (s source) build(ctx context.Context, o options, work, arch string) (string, error) {
	path := filepath.Join(work, "troupe-"+arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil // for the manual pages
	}
	env := []string{"GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off"}
	if !o.dynamic {
		env = append(env, "CGO_ENABLED=0")
	}
	if _, err := run(ctx, s.root, env, "go", "build", "-trimpath", "-buildvcs=false", "-tags="+tags, "-ldflags=-s -w -X main.release="+s.full, "-o", path, "./cmd/troupe"); err != nil {
		return "", err
	}
	if o.dynamic {
		return path, nil
	}
	return path, static(path)
}

// static returns an error if a binary needs a dynamic linker, or has symbols.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static", path)
		}
	}
	if f.Section(".symtab") != nil {
		return fmt.Errorf("%s is not stripped", path)
	}
	return nil
}

// documents makes the manual pages, the completions and the licences. The binary of this machine writes them.
func (s source) documents(ctx context.Context, o options, work string) (files []file, err error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("a release is made on Linux, because its binary writes the manual pages")
	}
	troupe, err := s.build(ctx, o, work, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	pages := filepath.Join(work, "man")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return nil, err
	}
	if _, err := run(ctx, work, s.environ(), troupe, "man", pages); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(pages, e.Name()))
		if err != nil {
			return nil, err
		}
		packed, err := s.gzip(text)
		if err != nil {
			return nil, err
		}
		files = append(files, file{archive: "man/man1/" + e.Name(), installed: "/usr/share/man/man1/" + e.Name() + ".gz", data: text, packed: packed})
	}
	for _, c := range []struct{ shell, archive, installed string }{
		{"bash", "completions/troupe.bash", "/usr/share/bash-completion/completions/troupe"},
		{"zsh", "completions/_troupe", "/usr/share/zsh/vendor-completions/_troupe"},
		{"fish", "completions/troupe.fish", "/usr/share/fish/vendor_completions.d/troupe.fish"},
	} {
		text, err := run(ctx, work, s.environ(), troupe, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{archive: c.archive, installed: c.installed, data: []byte(text)})
	}
	const shared = "/usr/share/doc/troupe/"
	licences, err := run(ctx, s.root, nil, "go", "run", "./tests/licences")
	if err != nil {
		return nil, err
	}
	files = append(files, file{archive: "THIRD_PARTY_LICENSES", installed: shared + "THIRD_PARTY_LICENSES", data: []byte(licences)})
	for _, d := range []struct{ path, archive, installed string }{
		{"LICENSE", "LICENSE", shared + "copyright"},
		{"README.md", "README.md", shared + "README.md"},
		{changelog, "CHANGELOG.md", shared + "CHANGELOG.md"},
	} {
		text, err := os.ReadFile(filepath.Join(s.root, d.path))
		if err != nil {
			return nil, err
		}
		files = append(files, file{archive: d.archive, installed: d.installed, data: text})
	}
	return files, nil
}
