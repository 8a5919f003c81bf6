// Release makes a release of troupe from the present commit, without the network:
//
//	go run ./cmd/release --out DIRECTORY [--version 1.2.3] [--sign-key KEY]
//
// For each architecture DIRECTORY then has an archive, a deb, an rpm and an SBOM, and for all of them the release notes, SHA256SUMS and, with a key,
// SHA256SUMS.sig. Two runs for one commit make the same bytes: all times are the commit's, or SOURCE_DATE_EPOCH. Only Go and git are needed,
// and for a signature ssh-keygen. The module cache must have all modules, also those of nfpm: go mod download; go mod download -modfile=cmd/release/nfpm.mod.
//
// Where to look: build.go has the binaries, layout.go the files of archives and packages, archive.go and packages.go write them, sbom.go the parts of a
// binary, notes.go the changelog, files/ the units, settings and scripts of the packages.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "the `DIRECTORY` to make, which must not exist")
	flag.StringVar(&o.version, "version", "", "the `VERSION`, such as 1.2.3; default: that of the tag of the commit, or else one with the commit's time and name")
	arch := flag.String("arch", "amd64,arm64", "the architectures, with commas")
	flag.StringVar(&o.signKey, "sign-key", "", "sign with this `FILE`, a private key of ssh-keygen")
	flag.BoolVar(&o.packages, "packages", true, "also make deb and rpm")
	flag.BoolVar(&o.dirty, "dirty", false, "release files that are not committed; the version says so")
	notes := flag.Bool("notes", false, "print the release notes of --version, and make nothing")
	flag.Parse()
	o.arches = strings.Split(*arch, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q is no flag", flag.Args())
	case *notes:
		err = printNotes(ctx, o)
	case o.out == "":
		err = errors.New("say with --out where the release goes")
	default:
		err = release(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the flags. Tests set more.
type options struct {
	out, version, signKey string
	arches                []string
	dirty                 bool

	root     string // of the source; "": the module of the present directory
	packages bool   // also deb and rpm
	dynamic  bool   // build as the tests do: their compiled packages are in the cache
}

// release makes the release of the options.
func release(ctx context.Context, o options) error {
	s, err := look(ctx, o)
	if err != nil {
		return err
	}
	return s.release(ctx, o)
}

// release makes the release of a source.
func (s source) release(ctx context.Context, o options) (err error) {
	notes, err := s.notes()
	if err != nil {
		return err
	}
	if err := os.Mkdir(o.out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	work, err := os.MkdirTemp("", "troupe-release-")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(work)) }()
	put := func(name string, data []byte) error { return os.WriteFile(filepath.Join(o.out, name), data, 0o644) }
	if err := put("RELEASE_NOTES.md", []byte(notes)); err != nil {
		return err
	}
	docs, err := s.documents(ctx, o, work)
	if err != nil {
		return err
	}
	for _, arch := range o.arches {
		binary, err := s.build(ctx, o, work, arch)
		if err != nil {
			return err
		}
		bom, err := s.sbom(binary, arch)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		files := append(layout(data), docs...)
		name := fmt.Sprintf("troupe-%s-linux-%s", s.version, arch)
		archive, err := s.archive(name, files)
		if err == nil {
			err = cmp.Or(put(name+".tar.gz", archive), put(name+".cdx.json", bom))
		}
		if err == nil && o.packages {
			err = s.pack(ctx, o, work, arch, files)
		}
		if err != nil {
			return err
		}
	}
	return sums(ctx, o)
}

// sums writes SHA256SUMS, and signs it.
func sums(ctx context.Context, o options) error {
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries { // by name
		data, err := os.ReadFile(filepath.Join(o.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	path := filepath.Join(o.out, "SHA256SUMS")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil || o.signKey == "" {
		return err
	}
	_, err = run(ctx, "", nil, "ssh-keygen", "-q", "-Y", "sign", "-f", o.signKey, "-n", signatureNamespace, path)
	return err
}

// signatureNamespace is in each signature: a signature for another purpose is no signature of a release.
const signatureNamespace = "troupe-release"

// run runs a command in a directory, with more variables, and returns its output. An error has the output.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out, errs.String())
	}
	return string(out), nil
}
