package chart

import (
	"fmt"
	"math"
	"strings"
)

// Curve is a chart of values on a logarithmic scale, at equal distances.
type Curve struct {
	Shows  string // in words
	Points []Point
	Right  func(v float64) string // what a value is beside; nil: nothing
}

// Point is a point of a curve.
type Point struct {
	Value float64 // zero: the curve ends before it
	Label string  // below the point; there is room for five
	Own   string  // beside it, with a mark; empty: none
}

// SVG draws c as a part of a page.
func (c Curve) SVG() string {
	least, most := math.Inf(1), 0.0
	for _, p := range c.Points {
		if p.Value > 0 {
			least, most = min(least, p.Value), max(most, p.Value)
		}
	}
	if most == 0 {
		least, most = 1, 1
	}
	high := math.Ceil(math.Log10(most))
	low := max(min(math.Floor(math.Log10(least)), high-1), high-8)
	var d drawing
	d.begin(c.Shows)
	for decade := low; decade <= high; decade++ {
		v, right := math.Pow(10, decade), ""
		if c.Right != nil && decade > low {
			right = c.Right(v)
		}
		d.grid((decade-low)/(high-low), tick(v), right)
	}
	var line []string
	for i, p := range c.Points {
		x := (float64(i) + 0.5) / float64(len(c.Points))
		if p.Label != "" {
			d.label(x, p.Label)
		}
		if p.Value <= 0 {
			continue
		}
		y := height((math.Log10(p.Value) - low) / (high - low))
		line = append(line, fmt.Sprintf("%.1f,%d", 1000*x, y))
		if p.Own != "" {
			fmt.Fprintf(&d, `<circle class="o" cx="%s" cy="%d" r="6"/>`+"\n", percent(x), y)
			place := ` dx="8"` // where a falling curve leaves room
			if x > 0.5 {
				y, place = y-10, ` dx="8" text-anchor="end"`
			}
			d.text(percent(x), y-8, "t", place, p.Own)
		}
	}
	fmt.Fprintf(&d, `<svg width="100%%" height="%d" viewBox="0 0 1000 %[1]d" preserveAspectRatio="none"><polyline class="l" vector-effect="non-scaling-stroke" points="%s"/></svg>`,
		above+field+below, strings.Join(line, " "))
	return d.end()
}
