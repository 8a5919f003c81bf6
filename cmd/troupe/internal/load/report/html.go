package report

import (
	"bufio"
	_ "embed"
	"fmt"
	"html"
	"io"
)

//go:embed style.css
var styleSheet string

// A doc is an HTML or SVG document that is being written. Flush returns the first error of a write.
//
// There is no template: html/template calls methods by their names, so the linker would have to keep every exported method of the
// binary (3 MB).
type doc struct{ *bufio.Writer }

func docTo(w io.Writer) doc { return doc{bufio.NewWriter(w)} }

// out writes values in a format of fmt. Each value becomes text: it has no effect between tags, nor in an attribute with double quotes. A format
// has no other places for a value, such as a style, a script or the address of a link.
func (d doc) out(format string, values ...any) {
	for i, v := range values {
		values[i] = html.EscapeString(fmt.Sprint(v))
	}
	fmt.Fprintf(d, format, values...)
}

// page writes a whole page. No value gets into the style or an address.
func (d doc) page(p *Page) {
	d.out(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>%s</title>
<style>`, p.title)
	d.WriteString(styleSheet)
	d.out(`</style>
</head>
<body>
<main>
<header class="%s">
<p class="kicker">%s</p>
<h1><strong>%s</strong> <span>%s</span></h1>
</header>
`, p.headline.Class, p.kicker, p.headline.Big, p.headline.Rest)
	d.tiles(p.tiles)
	d.aside("", "Problems", p.problems)
	d.aside("", "Notes", p.notes)
	d.aside("quiet", "Left out", p.leftOut)
	for _, t := range p.first {
		d.table(t)
	}
	for _, s := range p.sections {
		d.section(&s)
	}
	if len(p.sections) > 0 {
		d.out(`<p class="key"><i class="cutkey"></i> cuts <i class="faultkey"></i> finding <i class="stopkey"></i> server stopped or killed ` +
			`<i class="phasekey"></i> next phase. The numbers of a moment are shown where the mouse rests.</p>` + "\n")
	}
	for _, t := range p.tables {
		d.table(t)
	}
	d.out("<footer>Written by troupe load.</footer>\n</main>\n</body>\n</html>\n")
}

func (d doc) tiles(tiles []tile) {
	if len(tiles) == 0 {
		return
	}
	d.out(`<dl class="tiles">` + "\n")
	for _, t := range tiles {
		d.out(`<div class="tile %s"><dt>%s</dt><dd>%s</dd>`, t.Class, t.Label, t.Value)
		for i, s := range t.Sub {
			if i == 0 {
				d.out(`<dd class="sub">`)
			} else {
				d.out(", ")
			}
			d.out("<span>%s</span>", s)
		}
		if len(t.Sub) > 0 {
			d.out("</dd>")
		}
		d.out("</div>\n")
	}
	d.out("</dl>\n")
}

func (d doc) aside(class, title string, texts []string) {
	if len(texts) == 0 {
		return
	}
	d.out(`<aside class="%s"><h2>%s</h2><ul>`, class, title)
	for _, text := range texts {
		d.out("<li>%s</li>", text)
	}
	d.out("</ul></aside>\n")
}

func (d doc) section(s *section) {
	d.out("<section>\n<h2>%s</h2>\n", s.Title)
	if s.Sub != "" {
		d.out(`<p class="about">%s</p>`+"\n", s.Sub)
	}
	d.out(`<div class="charts">` + "\n")
	for _, c := range s.Charts {
		d.out(`<figure id="%s">`+"\n<figcaption><h3>%s</h3>", c.ID, c.Title)
		if c.Of != "" {
			d.out(" <span>%s</span>", c.Of)
		}
		if c.Sub != "" {
			d.out("<p>%s</p>", c.Sub)
		}
		d.out("</figcaption>\n")
		d.chart(c)
		d.out("</figure>\n")
	}
	d.out("</div>\n</section>\n")
}

func (d doc) table(t *table) {
	d.out(`<section id="t-%s">`+"\n<h2>%s</h2>\n"+`<div class="wide"><table>`+"\n<thead><tr>", t.ID, t.Title)
	for _, c := range t.Columns {
		d.out(`<th scope="col" class="%s">%s</th>`, c.class(), c.Title)
	}
	d.out("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		d.out("<tr>")
		for i, c := range row {
			d.out(`<td class="%s %s">`, t.Columns[i].class(), c.Class)
			if c.Class == "code" {
				d.out("<pre>%s</pre></td>", c.Text)
			} else {
				d.out("%s</td>", c.Text)
			}
		}
		d.out("</tr>\n")
	}
	d.out("</tbody>\n</table></div>\n</section>\n")
}

// class returns the class of the cells of a column.
func (c column) class() string {
	switch {
	case c.Right:
		return "right"
	case c.Text:
		return "text"
	}
	return ""
}

// chart writes the picture within a page, which shows the numbers of a moment where the mouse rests.
func (d doc) chart(c *chart) {
	d.out(`<svg viewBox="0 0 540 250" role="img" aria-label="%s, %s">`+"\n", c.Title, c.Of)
	d.drawing(c)
	for _, h := range c.Hovers {
		d.out(`<g class="hover"><rect x="%v" y="12" width="%v" height="201"/><line x1="%v" x2="%v" y1="12" y2="204"/><title>%s</title></g>`, h.X, h.Width, h.Middle, h.Middle, h.Text)
	}
	d.out("\n</svg>\n")
}

// picture writes the picture as a file of its own.
func (d doc) picture(c *chart) {
	d.out(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 540 292" width="720" height="389" role="img" aria-label="%s, %s">`+"\n<style>", c.Title, c.Of)
	d.WriteString(styleSheet)
	d.out(`</style>
<rect class="card" x="0.5" y="0.5" width="539" height="291" rx="8"/>
<text class="title" x="16" y="28">%s<tspan class="about">`, c.Title)
	for _, about := range []string{c.Of, c.Sub} {
		if about != "" {
			d.out(" · %s", about)
		}
	}
	d.out("</tspan></text>\n" + `<g transform="translate(0 38)">` + "\n")
	d.drawing(c)
	d.out("</g>\n</svg>\n")
}

func (d doc) drawing(c *chart) {
	for _, s := range c.Stops {
		d.out(`<rect class="stop" x="%v" y="12" width="%v" height="192"/>`+"\n", s.X, s.Width)
	}
	for _, g := range c.Grid {
		d.out(`<line class="grid" x1="58" x2="454" y1="%v" y2="%v"/><text class="tick" x="52" y="%v" text-anchor="end">%s</text>`+"\n", g.At, g.At, round(g.At+4), g.Label)
	}
	d.out(`<line class="axis" x1="58" x2="454" y1="204" y2="204"/>` + "\n")
	for _, t := range c.XTicks {
		d.out(`<text class="tick" x="%v" y="228" text-anchor="%s">%s</text>`+"\n", t.At, t.Anchor, t.Label)
	}
	d.out(`<text class="axistitle" x="454" y="245" text-anchor="end">%s</text>`+"\n", c.XTitle)
	for _, p := range c.Phases {
		d.out(`<line class="phase" x1="%v" x2="%v" y1="12" y2="204"/>`, p.X, p.X)
	}
	for _, b := range c.Cuts {
		d.out(`<rect class="cut" x="%v" y="207" width="%v" height="6" opacity="%s"/>`, b.X, b.Width, b.Opacity)
	}
	d.out("\n")
	for _, l := range c.Lines {
		d.out(`<g class="%s">`, l.Class)
		if l.Area != "" {
			d.out(`<path class="area" d="%s"/>`, l.Area)
		}
		d.out(`<path class="line" d="%s"/>`, l.Path)
		if l.Dots != "" {
			d.out(`<path class="line dots" d="%s"/>`, l.Dots)
		}
		d.out("</g>\n")
	}
	for _, l := range c.Lines {
		d.out(`<text class="label %s" x="460" y="%v">%s</text>`+"\n", l.Class, l.LabelAt, l.Label)
	}
	for _, p := range c.Phases {
		d.out(`<text class="phasename" x="%v" y="21">%s</text>`, round(p.X+4), p.Label)
	}
	d.out("\n")
	for _, f := range c.Faults {
		d.out(`<g class="fault"><line class="faultline" x1="%v" x2="%v" y1="12" y2="204"/><path d="M%v 13l-4 -7h8z"/><title>%s</title></g>`, f.X, f.X, f.X, f.Label)
	}
	d.out("\n")
}
