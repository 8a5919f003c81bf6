package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/transfer"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// newCp returns the command that copies files to the server and back.
func newCp(t *target.Flags) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "cp [flags] SOURCE... TARGET",
		Short: "Copy files to the server, from the server, or on the server",
		Long: `Copies files and directories. A path with a colon is on the server, any other path is here; write ./a:b for a
file here with a colon in its name. If TARGET is a directory, the copy is made in it.

Directories are copied with their content. Modes, times and links are kept; owners and hard links are not. A
file is there as a whole or not at all, and an existing file is replaced. No link in TARGET is followed.
After a lost connection the copy goes on where it was, for up to 5 minutes. On a terminal a line shows the progress.
The exit code is 1 if something was not copied; the rest is there.

` + remoteHelp,
		Example: `  troupe cp report.pdf :
  troupe cp :/var/log/syslog .
  troupe cp src build:work
  troupe cp :a :b              # both on the server`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			sources, to := args[:len(args)-1], args[len(args)-1]
			_, _, fromServer := remoteName(sources[0])
			_, _, toServer := remoteName(to)
			for _, s := range sources {
				if _, _, is := remoteName(s); is != fromServer {
					return wrong("the sources %s and %s are not on the same machine: copy them separately", sources[0], s)
				}
			}
			if !fromServer && !toServer {
				return wrong("both %s and %s are here: write a colon before a path on the server", sources[0], to)
			}
			for _, arg := range args {
				if server, _, is := remoteName(arg); is {
					if err := chooseServer(t, server, arg); err != nil {
						return err
					}
				}
			}
			return withFiles(t, "cp", func(ctx context.Context, r *remote) error {
				cp := &copier{r: r, quiet: quiet}
				return cp.run(ctx, sources, to, fromServer, toServer)
			})
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	cmd.Flags().BoolP("recursive", "r", false, "has no effect: directories are always copied with their content")
	return cmd
}

// A copier is a single troupe cp.
type copier struct {
	r     *remote
	quiet bool
	copy  transfer.Copy

	mu sync.Mutex // guards stderr
}

func (cp *copier) run(ctx context.Context, sources []string, to string, fromServer, toServer bool) error {
	cp.copy.Problem = func(name string, err error) {
		side := ""
		if fromServer {
			side, name = ":", path.Join("/", name)
		}
		cp.note(fmt.Sprintf("troupe cp: %s%s: %s", side, show.Harmless(name), show.Harmless(plainly(err).Error())))
	}
	stop := cp.progress()
	defer stop()
	for _, source := range sources {
		var err error
		switch {
		case fromServer && toServer:
			err = cp.onServer(source, to, len(sources) > 1)
		case fromServer:
			err = cp.download(ctx, source, to, len(sources) > 1)
		default:
			err = cp.upload(ctx, source, to, len(sources) > 1)
		}
		if err != nil {
			return err
		}
	}
	if cp.copy.Problems() > 0 {
		return exitError{exitFailure, nil} // Problem has told why
	}
	return nil
}

// into returns the directory and the name of the copy of a source: in the target, if the target is a directory, or with
// the name of the target. stat looks at the target.
func into(source, target string, many bool, stat func(string) (fs.FileInfo, error)) (dir, name string, err error) {
	info, err := stat(target)
	switch {
	case err == nil && info.IsDir():
		name := path.Base(source)
		if name == "." || name == ".." || name == "/" {
			return "", "", fmt.Errorf("%s has no name of its own: give the target of the copy a name", source)
		}
		return target, name, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case many || strings.HasSuffix(target, "/"):
		return "", "", fmt.Errorf("the target %s is not a directory: make it first", show.Harmless(target))
	}
	target = path.Clean(target)
	return path.Dir(target), path.Base(target), nil
}

// intoServer is into for a target on the server.
func (cp *copier) intoServer(source, to string, many bool) (dir, name string, err error) {
	_, to, _ = remoteName(to)
	target := "/" + cp.r.at(to)
	if strings.HasSuffix(to, "/") {
		target += "/"
	}
	return into(source, target, many, func(p string) (fs.FileInfo, error) { return cp.r.fs.Stat(cp.r.at(p)) })
}

// upload copies a file or directory from here to the server.
func (cp *copier) upload(ctx context.Context, source, to string, many bool) error {
	abs, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	dir, name, err := cp.intoServer(filepath.ToSlash(abs), to, many)
	if err != nil {
		return err
	}
	real, err := cp.r.fs.RealPath(cp.r.at(dir)) // below it no link is followed
	if err != nil {
		return fmt.Errorf("the directory %s on the server: %w", full(dir), plainly(err))
	}
	return cp.copy.Tree(ctx, transfer.Here{}, source, transfer.Remote{FS: cp.r.c.FS(real).WithContext(ctx)}, name)
}

// download copies a file or directory from the server to here.
func (cp *copier) download(ctx context.Context, source, to string, many bool) error {
	_, source, _ = remoteName(source)
	from := cp.r.at(source)
	dir, name, err := into("/"+from, filepath.ToSlash(to), many, os.Stat)
	if err != nil {
		return err
	}
	local, err := transfer.OpenLocal(dir)
	if err != nil {
		return err
	}
	defer local.Close()
	return cp.copy.Tree(ctx, cp.r.fs, from, local, name)
}

// onServer copies a file or directory on the server. The content stays there.
func (cp *copier) onServer(source, to string, many bool) error {
	_, source, _ = remoteName(source)
	from := cp.r.at(source)
	dir, name, err := cp.intoServer("/"+from, to, many)
	if err == nil {
		err = cp.r.fs.CopyAll(from, cp.r.at(path.Join(dir, name)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", full(from), plainly(err))
	}
	return nil
}

// note prints a line for the person, above the progress.
func (cp *copier) note(text string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.shows() {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	fmt.Fprintln(os.Stderr, text)
}

func onTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (cp *copier) shows() bool {
	return !cp.quiet && onTerminal(os.Stderr) && os.Getenv("TERM") != "dumb"
}

// progressEvery is the time between two looks of the progress.
const progressEvery = 200 * time.Millisecond

// progress shows a line about the copy on a terminal, until stop is called.
func (cp *copier) progress() (stop func()) {
	if !cp.shows() {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var rate transfer.Rate
		for {
			select {
			case <-done:
				fmt.Fprint(os.Stderr, "\r\x1b[K")
				return
			case now := <-tick.C:
				current, _ := cp.copy.Current.Load().(string)
				s := progressState{
					bytes: cp.copy.Bytes.Load(), total: cp.copy.TotalBytes.Load(), files: cp.copy.Files.Load(), totalFiles: cp.copy.TotalFiles.Load(),
					rate: rate.Add(now, cp.copy.Bytes.Load()), lost: time.Duration(cp.r.silent.Load()), name: path.Base(filepath.ToSlash(current)),
				}
				width, _, err := term.GetSize(int(os.Stderr.Fd()))
				if err != nil || width <= 0 {
					width = 80
				}
				cp.mu.Lock()
				fmt.Fprint(os.Stderr, "\r\x1b[K"+show.Cut(s.line(), width-1))
				cp.mu.Unlock()
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// progressState is what the line of the progress shows.
type progressState struct {
	bytes, total      int64
	files, totalFiles int64
	rate              float64       // bytes per second; 0: unknown
	lost              time.Duration // since the connection was lost; 0: it is there
	name              string        // of a file under way
}

func (s progressState) line() string {
	if s.lost > 0 {
		return show.LostFor(s.lost)
	}
	if s.totalFiles == 0 {
		return "looking for files"
	}
	percent := int64(100)
	if s.total > 0 {
		percent = min(100, s.bytes*100/s.total)
	}
	parts := []string{fmt.Sprintf("%3d%%", percent), show.Bytes(s.bytes) + " of " + show.Bytes(s.total)}
	if s.rate > 0 {
		parts = append(parts, show.Bytes(int64(s.rate))+"/s")
		if left := float64(s.total-s.bytes) / s.rate; left >= 1 {
			parts = append(parts, show.Age(time.Duration(left)*time.Second)+" left")
		}
	}
	if s.totalFiles > 1 {
		parts = append(parts, fmt.Sprintf("%d of %d files", s.files, s.totalFiles))
	}
	return strings.Join(append(parts, show.Harmless(s.name)), "  ")
}
