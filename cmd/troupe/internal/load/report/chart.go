package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// The size of a chart and of the plot in it, in units of its picture. The page scales the picture.
const (
	chartWidth, chartHeight = 540.0, 250.0
	plotLeft, plotRight     = 58.0, 454.0
	plotTop, plotBottom     = 12.0, 204.0
	stripTop, stripBottom   = 207.0, 213.0 // cuts
	labelsAt                = 228.0        // of the x axis
)

// A chart is a picture, ready to be written. All numbers are in units of the picture.
type chart struct {
	ID, Title, Sub string
	Of             string // what the y axis shows
	unit           result.Unit
	XTitle         string
	Grid           []gridline
	XTicks         []gridline
	marks          // zero in a chart without time
	Lines          []line
	Hovers         []hover
}

// marks are the same in all charts over time.
type marks struct {
	Phases, Stops []band
	Cuts, Faults  []bar // Faults: findings
}

type (
	gridline struct {
		At     float64
		Label  string
		Anchor string // of SVG: start, middle or end
	}
	// A band is a time of the run: a stop or kill of the server, or the begin of a phase.
	band struct {
		X, Width float64
		Label    string
	}
	line struct {
		Class, Label string
		Path, Area   string  // of SVG; Area "": none
		Dots         string  // of SVG: the values alone between gaps
		LabelAt      float64 // the y of the label
	}
	bar struct {
		X, Width float64
		Opacity  string
		Label    string
	}
	hover struct {
		X, Width, Middle float64
		Text             string
	}
)

const timeTitle = "time since the begin"

// A value is a place of a line before it is drawn. ok false: the line has a gap there.
type value struct {
	x, y float64
	ok   bool
}

func px(at float64) float64 { return round(plotLeft + at*(plotRight-plotLeft)) }
func py(at float64) float64 { return round(plotBottom - at*(plotBottom-plotTop)) }

// round keeps the file short.
func round(v float64) float64 { return math.Round(v*10) / 10 }

// draw adds a line. values are in the order of x; x and y are values of the axes. A value alone between gaps is a dot.
func (c *chart) draw(class, label string, x, y axis, values []value, area bool) {
	var path, under, dots strings.Builder
	end := 0.0
	for len(values) > 0 {
		n := slices.IndexFunc(values, func(v value) bool { return !v.ok || math.IsNaN(v.y) })
		if n == 0 {
			values = values[1:]
			continue
		}
		if n < 0 {
			n = len(values)
		}
		first, last := px(x.place(values[0].x)), px(x.place(values[n-1].x))
		fmt.Fprintf(&under, "M%g %g", first, plotBottom)
		for i, v := range values[:n] {
			at := fmt.Sprintf("%g %g", px(x.place(v.x)), py(y.place(v.y)))
			if n == 1 {
				dots.WriteString("M" + at + "h0")
			}
			if i == 0 {
				path.WriteString("M" + at)
			}
			path.WriteString("L" + at)
			under.WriteString("L" + at)
		}
		fmt.Fprintf(&under, "L%g %gZ", last, plotBottom)
		end = py(y.place(values[n-1].y))
		values = values[n:]
	}
	if path.Len() == 0 {
		return
	}
	l := line{Class: class, Label: show.Harmless(label), Path: path.String(), Dots: dots.String(), LabelAt: end + 4}
	if area {
		l.Area = under.String()
	}
	c.Lines = append(c.Lines, l)
}

// axes adds the axes, and moves the labels of the lines apart.
func (c *chart) axes(x, y axis) {
	for _, t := range y.ticks {
		c.Grid = append(c.Grid, gridline{At: py(t.at), Label: t.label})
	}
	for _, t := range x.ticks {
		g := gridline{At: px(t.at), Label: t.label, Anchor: "middle"}
		if t.at == 0 {
			g.Anchor = "start"
		}
		c.XTicks = append(c.XTicks, g)
	}
	const height = 13
	byPlace := make([]*line, len(c.Lines))
	for i := range c.Lines {
		byPlace[i] = &c.Lines[i]
	}
	slices.SortStableFunc(byPlace, func(a, b *line) int { return cmp.Compare(a.LabelAt, b.LabelAt) })
	for i, l := range byPlace {
		l.LabelAt = max(l.LabelAt, plotTop+8)
		if i > 0 {
			l.LabelAt = max(l.LabelAt, byPlace[i-1].LabelAt+height)
		}
	}
	floor := plotBottom + 2
	for _, l := range slices.Backward(byPlace) {
		l.LabelAt = round(min(l.LabelAt, floor))
		floor = l.LabelAt - height
	}
}

// during is what all charts over time share: the axis, the marks, and the points, which are the windows for hovering.
type during struct {
	x      axis
	points []point
	marks
}

func newDuring(r *result.Result, all []point) *during {
	d := &during{points: all}
	d.x = clock(lengthOf(r, all))
	most := int64(0)
	for _, p := range all {
		most = max(most, p.Counts[result.Cuts])
	}
	if r.LoadBegan > time.Second { // sessions were opened before
		d.Phases = append(d.Phases, band{X: px(d.x.place(float64(r.LoadBegan))), Label: phaseName(r, 0)})
	}
	phase := 0
	for _, p := range all {
		x := px(d.x.place(float64(p.At)))
		width := round(px(d.x.place(float64(p.At+p.length))) - x)
		if n := p.Counts[result.Cuts]; n > 0 {
			d.Cuts = append(d.Cuts, bar{X: x, Width: max(width, 1), Opacity: fmt.Sprintf("%.2f", 0.25+0.75*float64(n)/float64(most))})
		}
		if p.Counts[result.Stops]+p.Counts[result.ServerKills] > 0 {
			d.Stops = append(d.Stops, band{X: x, Width: max(width, 1.5)})
		}
		if p.Phase != phase {
			phase = p.Phase
			d.Phases = append(d.Phases, band{X: x, Label: phaseName(r, phase)})
		}
	}
	if r.LoadEnded > 0 && r.LoadEnded+time.Second < r.Took { // programs are ended, and leftovers searched
		d.Phases = append(d.Phases, band{X: px(d.x.place(float64(r.LoadEnded))), Label: "ending"})
	}
	for i, f := range r.Findings {
		if x := px(d.x.place(float64(f.At))); i == 0 || len(d.Faults) == 0 || d.Faults[len(d.Faults)-1].X != x {
			d.Faults = append(d.Faults, bar{X: x, Label: show.Harmless(string(f.Kind))})
		}
	}
	return d
}

// lengthOf returns how long the axis of the time is.
func lengthOf(r *result.Result, all []point) time.Duration {
	if n := len(all); n > 0 {
		return max(r.Took, all[n-1].At+all[n-1].length)
	}
	return r.Took
}

func phaseName(r *result.Result, i int) string {
	if i >= 0 && i < len(r.Plan.Phases) && r.Plan.Phases[i].Name != "" {
		return show.Harmless(r.Plan.Phases[i].Name)
	}
	return fmt.Sprint("phase ", i+1)
}

// A source of a line over time: its value at a point.
type source struct {
	class, label string
	points       []point // nil: those of the run that the chart is about
	value        func(p *point) (float64, bool)
	area         bool
}

// values returns the values of the line, in the middles of the points.
func (s *source) values() []value {
	values := make([]value, len(s.points))
	for i := range s.points {
		p := &s.points[i]
		v, ok := s.value(p)
		values[i] = value{float64(p.At + p.length/2), v, ok}
	}
	return values
}

// overTime draws the lines of sources into c. It returns nil if none has a value above 0.
func (c *chart) overTime(x axis, sources []source) *chart {
	lowest, highest := math.Inf(1), 0.0
	for _, s := range sources {
		for _, v := range s.values() {
			if v.ok && v.y > 0 && !math.IsInf(v.y, 0) {
				lowest, highest = min(lowest, v.y), max(highest, v.y)
			}
		}
	}
	if highest == 0 {
		return nil
	}
	y := axisOf(c.unit, lowest, highest)
	for _, s := range sources {
		c.draw(s.class, s.label, x, y, s.values(), s.area)
	}
	c.axes(x, y)
	return c
}

// chart returns the chart of sources over time, or nil if none has a value above 0. A source without such a value has no line.
func (d *during) chart(id, title, of string, unit result.Unit, sources ...source) *chart {
	var drawn []source
	for _, s := range sources {
		s.points = d.points
		if slices.ContainsFunc(s.values(), func(v value) bool { return v.ok && v.y > 0 }) {
			drawn = append(drawn, s)
		}
	}
	c := &chart{ID: show.Harmless(id), Title: show.Harmless(title), Of: of, unit: unit, XTitle: timeTitle, marks: d.marks}
	if c.overTime(d.x, drawn) == nil {
		return nil
	}
	for i := range d.points {
		c.Hovers = append(c.Hovers, d.hover(unit, &d.points[i], sources))
	}
	return c
}

func (d *during) hover(unit result.Unit, p *point, sources []source) hover {
	x, end := px(d.x.place(float64(p.At))), px(d.x.place(float64(p.At+p.length)))
	var text strings.Builder
	text.WriteString(clockLabel(p.At.Round(time.Second)))
	for _, s := range sources {
		if v, ok := s.value(p); ok {
			fmt.Fprintf(&text, "\n%s: %s", show.Harmless(s.label), tell(unit, v))
		}
	}
	if n := p.Counts[result.Cuts]; n > 0 {
		fmt.Fprintf(&text, "\n%d cuts", n)
	}
	if p.Counts[result.Stops] > 0 {
		text.WriteString("\nserver stopped")
	}
	if p.Counts[result.ServerKills] > 0 {
		text.WriteString("\nserver killed")
	}
	return hover{X: x, Width: max(round(end-x), 0.5), Middle: round((x + end) / 2), Text: text.String()}
}
