// Package report shows results: one run, or two runs side by side. Both are a Page, which is written as text, as one HTML file, or as its
// pictures.
package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Page is a report, ready to be written.
type Page struct {
	title, kicker  string
	headline       headline
	tiles          []tile
	problems       []string
	notes, leftOut []string
	sections       []section
	first, tables  []*table // before and after the sections
	rows           int      // of a table in text, at most
}

// Of returns the report of a run.
func Of(r *result.Result) *Page {
	return &Page{
		title:    "Load test: " + headlineOf(r).Big,
		kicker:   kicker(r),
		headline: headlineOf(r),
		tiles:    tiles(r),
		problems: harmless(r.Problems),
		notes:    harmless(r.Notes),
		leftOut:  harmless(r.LeftOut),
		sections: sections(r),
		first:    urgent(r),
		tables:   tables(r),
		rows:     maxTextRows,
	}
}

// HTML writes one file that opens without a network and without scripts.
func (p *Page) HTML(w io.Writer) error {
	d := docTo(w)
	d.page(p)
	return d.Flush()
}

// Pictures writes each picture of the page as an SVG file of its own into dir, for documents: bytes.svg, latency-echo.svg, … They are light or dark
// as the page is. Pictures makes dir.
func (p *Page) Pictures(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, s := range p.sections {
		for _, c := range s.Charts {
			var b bytes.Buffer
			d := docTo(&b)
			d.picture(c)
			d.Flush() // to memory
			if err := os.WriteFile(filepath.Join(dir, fileName(c.ID)+".svg"), b.Bytes(), 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileName returns id with all but letters and digits replaced: an id has the name of a latency, which may come from a file of somebody else.
func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(id[:min(len(id), 60)]))
}

// kicker says in a line which run it is: its mix, its begin, how long it took, and the servers.
func kicker(r *result.Result) string {
	var parts []string
	switch {
	case r.Plan.Workers > 0:
		parts = append(parts, several(int64(r.Plan.Workers), "worker"))
	case r.Runs != nil:
		parts = append(parts, several(int64(len(r.Runs)), "run")+" together")
	}
	switch {
	case r.Commands != nil:
		parts = append(parts, show.Cut(strings.Join(r.Commands.Argv, " "), 60))
	case len(r.Plan.Phases) > 0:
		parts = append(parts, show.Cut(strings.Join(r.Plan.Named(), ", "), 60))
	}
	if !r.Began.IsZero() {
		parts = append(parts, r.Began.UTC().Format("2 January 2006 15:04 UTC"))
	}
	took := loadTime(r)
	if took > time.Second {
		took = took.Round(100 * time.Millisecond)
	}
	parts = append(parts, show.Latency(took))
	switch {
	case len(r.Servers) == 1:
		parts = append(parts, strings.TrimSpace(r.Servers[0].Name+" "+r.Servers[0].Version))
	case len(r.Servers) > 1:
		parts = append(parts, several(int64(len(r.Servers)), "server"))
	}
	return show.Harmless(strings.Join(parts, " · "))
}

// loadTime returns how long the phases took; of a result without them, the whole run.
func loadTime(r *result.Result) time.Duration {
	if r.LoadEnded > r.LoadBegan {
		return r.LoadEnded - r.LoadBegan
	}
	return r.Took
}

func harmless(texts []string) []string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = show.Harmless(t)
	}
	return all
}
