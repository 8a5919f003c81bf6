//go:build unix

package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/report"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// sizeOf returns the function that tells the size of the terminal w; nil: w is none.
func sizeOf(w io.Writer) func() (width, height int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() (int, int) {
		width, height, _ := term.GetSize(int(f.Fd()))
		return width, height
	}
}

// findingsDir returns the directory for findings. The one of the flag is made at once, since a wrong path is better told before the run than after it.
func (o *loadFlags) findingsDir() (string, error) {
	if o.findings != "" {
		return o.findings, os.MkdirAll(o.findings, 0o755)
	}
	return filepath.Join(os.TempDir(), "troupe-findings-"+strings.ToLower(rand.Text()[:16])), nil
}

// judge replaces the verdicts of a result by those about the SLOs of the flags.
func (o *loadFlags) judge(res *result.Result) {
	res.SLOs = nil
	for _, slo := range o.slos {
		res.SLOs = append(res.SLOs, slo.Check(res))
	}
}

// report prints the result and writes the files.
func (o *loadFlags) report(stdout, stderr io.Writer, res, before *result.Result) (err error) {
	text := stdout
	if o.json == "-" {
		text = stderr
	}
	page, width := report.Of(res), show.To(text).Width
	if err := page.Text(text, width); err != nil {
		return err
	}
	if before != nil {
		fmt.Fprintln(text)
		after := *res
		after.SLOs = nil // the page has them
		pair := report.Pair{Before: before, After: &after, Names: [2]string{filepath.Base(o.compare), "this run"}, Threshold: o.threshold}
		if err := report.Compare(pair).Text(text, width); err != nil {
			return err
		}
	}
	if o.json == "-" {
		err = show.JSON(stdout, res)
	} else if o.json != "" {
		err = writeFile(o.json, func(w io.Writer) error { return show.JSON(w, res) })
	}
	if o.html != "" {
		err = errors.Join(err, writeFile(o.html, page.HTML))
	}
	if o.pictures != "" {
		err = errors.Join(err, page.Pictures(o.pictures))
	}
	return err
}

// writeFile writes a file that is there as a whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // such as /dev/stdout
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	part := fmt.Sprintf("%s.part-%d", path, os.Getpid())
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}

// readResult reads the result of another run.
func readResult(path string) (*result.Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(result.Result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s is not a result of troupe load --json: %w", path, err)
	}
	if r.Version != result.Version {
		return nil, fmt.Errorf("%s has version %d, and this troupe reads version %d: use the troupe that wrote it", path, r.Version, result.Version)
	}
	return r, nil
}

// replayFile checks the findings of a file again, from the events that showed them.
func (o *loadFlags) replayFile(w io.Writer) error {
	f, err := os.Open(o.replay)
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("--replay: %w", err)}
	}
	defer f.Close()
	out := show.To(w)
	all, found := 0, 0
	line := func(n int, p *oracle.Replayed) error {
		f := &p.Finding
		outcome, style := "found again", show.Good
		if !p.Found {
			outcome, style = "not found again: "+p.Why, show.Warn
		}
		_, err := fmt.Fprintf(out, "%d  %s of %s in %s, run %d, offset %d, seq %d, at %v: %s\n", n, f.Kind, show.Harmless(f.Process), show.Harmless(f.Session),
			f.Run, f.Offset, f.Seq, f.At.Round(time.Millisecond), out.Paint(style, show.Harmless(outcome)))
		if err != nil || f.Detail == "" {
			return err
		}
		_, err = fmt.Fprintf(out, "   %s\n", show.Harmless(f.Detail))
		return err
	}
	err = oracle.Replay(f, func(n int, p oracle.Replayed) error {
		if all++; p.Found {
			found++
		}
		return line(n, &p)
	})
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("--replay %s: %w", o.replay, err)}
	}
	fmt.Fprintf(out, "%s, %d found again\n", show.Count(all, "finding"), found)
	if all > 0 {
		return exitError{1, nil}
	}
	return nil
}

// compareFiles prints two results side by side, and writes them to the file of --html. The SLOs are for the second result.
func (o *loadFlags) compareFiles(w io.Writer, after string) error {
	a, err := readResult(o.compare)
	if err != nil {
		return exitError{exitFailed, err}
	}
	b, err := readResult(after)
	if err != nil {
		return exitError{exitFailed, err}
	}
	o.judge(b)
	pair := report.Pair{Before: a, After: b, Names: [2]string{filepath.Base(o.compare), filepath.Base(after)}, Threshold: o.threshold}
	if pair.Names[0] == pair.Names[1] {
		pair.Names = [2]string{o.compare, after}
	}
	page := report.Compare(pair)
	err = page.Text(w, show.To(w).Width)
	if o.html != "" {
		err = errors.Join(err, writeFile(o.html, page.HTML))
	}
	switch {
	case err != nil:
		return exitError{exitFailed, err}
	case slices.ContainsFunc(b.SLOs, func(v result.Verdict) bool { return !v.Met }):
		return exitError{1, nil}
	}
	return nil
}
