package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A chart is a picture of curves.
type chart struct {
	File   string  `json:"file"` // its name
	Title  string  `json:"title"`
	X, Y   axis    `json:"-"`
	Curves []curve `json:"curves"`
}

type axis struct {
	what string // with its unit
	log  bool
	name func(float64) string // of a place; nil: its number
}

type curve struct {
	Name   string       `json:"name"`
	Dashed bool         `json:"-"`
	Color  string       `json:"-"`
	Points [][2]float64 `json:"points"` // x and y, above zero
}

const (
	svgWidth, svgHeight = 820, 480
	plotLeft, plotRight = 80, 620 // the rest is the legend's
	plotTop, plotBottom = 50, 420
)

// scale maps values to places between from and to.
type scale struct {
	low, high float64
	from, to  float64
	log       bool
	ticks     []float64 // round numbers along it
}

func newScale(values []float64, from, to float64, log bool) scale {
	low, high := slices.Min(values), slices.Max(values)
	if log {
		ticks := roundNumbers(low, high)
		s := scale{ticks[0], ticks[len(ticks)-1], from, to, true, ticks}
		if len(ticks) > 9 { // only the powers of ten
			s.ticks = slices.DeleteFunc(ticks, func(v float64) bool {
				power := math.Log10(v)
				return math.Abs(power-math.Round(power)) > 0.01
			})
		}
		return s
	}
	s := scale{0, high * 1.05, from, to, false, nil}
	step := roundNumbers(high/8, high/2)[1]
	for v := 0.0; v <= s.high; v += step {
		s.ticks = append(s.ticks, v)
	}
	return s
}

// roundNumbers are 1, 2, 5, 10, 20 and so on: all between low and high, and one around
// them at each end.
func roundNumbers(low, high float64) (numbers []float64) {
	for power := int(math.Floor(math.Log10(low))); ; power++ {
		for _, digit := range []float64{1, 2, 5} {
			v := digit * math.Pow10(power)
			if len(numbers) == 1 && v <= low {
				numbers = nil
			}
			if numbers = append(numbers, v); v >= high {
				return numbers
			}
		}
	}
}

func (s scale) place(v float64) float64 {
	part := (v - s.low) / (s.high - s.low)
	if s.log {
		part = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + part*(s.to-s.from)
}

// svg draws the chart.
func (c chart) svg() string {
	var xs, ys []float64
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x := newScale(xs, plotLeft, plotRight, c.X.log)
	y := newScale(ys, plotBottom, plotTop, c.Y.log)
	if c.X.log { // from point to point, not from power to power
		x.low, x.high = slices.Min(xs), slices.Max(xs)
	}

	var s strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	text := func(x, y float64, anchor, more, t string) {
		p(`<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, more, html.EscapeString(t))
	}
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#222">`, svgWidth, svgHeight)
	p(`<rect width="%d" height="%d" fill="#fff"/>`, svgWidth, svgHeight)
	text(plotLeft, 28, "start", ` font-size="16" font-weight="bold"`, c.Title)
	text((plotLeft+plotRight)/2, svgHeight-14, "middle", "", c.X.what)
	text(0, 0, "middle", fmt.Sprintf(` transform="translate(20 %d) rotate(-90)"`, (plotTop+plotBottom)/2), c.Y.what)
	for _, v := range y.ticks {
		at := y.place(v)
		p(`<path d="M%d %.1fH%d" stroke="#ddd"/>`, plotLeft, at, plotRight)
		text(plotLeft-8, at+4, "end", "", c.Y.tick(v))
	}
	for _, v := range c.xTicks(x) {
		at := x.place(v)
		p(`<path d="M%.1f %dV%d" stroke="#eee"/>`, at, plotTop, plotBottom)
		text(at, plotBottom+20, "middle", "", c.X.tick(v))
	}
	p(`<path d="M%d %dV%dH%d" fill="none" stroke="#222"/>`, plotLeft, plotTop, plotBottom, plotRight)
	for i, curve := range c.Curves {
		dash := ""
		if curve.Dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		var path strings.Builder
		for j, point := range curve.Points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], x.place(point[0]), y.place(point[1]))
			p(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.place(point[0]), y.place(point[1]), curve.Color)
		}
		p(`<path d="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, path.String(), curve.Color, dash)
		at := float64(plotTop + 14 + 22*i)
		p(`<path d="M%d %.1fh26" stroke="%s" stroke-width="2"%s/>`, plotRight+18, at-4, curve.Color, dash)
		text(plotRight+50, at, "start", "", curve.Name)
	}
	p(`</svg>`)
	return s.String()
}

// xTicks are the values that were measured, if that is what there is room for.
func (c chart) xTicks(x scale) (ticks []float64) {
	if !c.X.log {
		return x.ticks
	}
	for _, p := range c.Curves[0].Points {
		ticks = append(ticks, p[0])
	}
	return ticks
}

func (a axis) tick(v float64) string {
	if a.name != nil {
		return a.name(v)
	}
	return fmt.Sprintf("%g", float64(int(v*1e6+0.5))/1e6)
}
