package chart

import "math"

// Columns is a chart of columns side by side.
type Columns struct {
	Shows   string  // in words
	Most    float64 // the value that it has room for; zero: the highest column's
	Columns []Column
	Bands   []Band
}

// Column is one column.
type Column struct {
	Value float64
	Own   float64 // the part of Value at the foot, in the strong colour
	Label string  // below the column; there is room for four
}

// Band marks columns, from the first to the last of them.
type Band struct {
	First, Last int
	Label       string
}

// SVG draws c as a part of a page.
func (c Columns) SVG() string {
	most := c.Most
	for _, col := range c.Columns {
		most = max(most, col.Value)
	}
	most = ceil(most)
	var d drawing
	d.begin(c.Shows)
	n := float64(len(c.Columns))
	for _, b := range c.Bands {
		from, wide := float64(b.First)/n, float64(b.Last+1-b.First)/n
		d.rect("s", percent(from), above-8, percent(wide), field+8)
		d.text(percent(from+wide/2), above-12, "t", ` text-anchor="middle"`, b.Label)
	}
	d.grid(1, tick(most), "")
	d.grid(0.5, tick(most/2), "")
	d.grid(0, "", "")
	for i, col := range c.Columns {
		x := float64(i) / n
		for _, part := range []struct {
			class string
			v     float64
		}{{"b", col.Value}, {"o", col.Own}} {
			if high := field * part.v / most; part.v > 0 {
				high = max(high, 1) // few are not none
				d.rect(part.class, percent(x+0.1/n), above+field-high, percent(0.8/n), high)
			}
		}
		if col.Label != "" {
			d.label(x+0.5/n, col.Label)
		}
	}
	return d.end()
}

// ceil returns the next 1, 2 or 5 times a power of ten.
func ceil(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*unit {
			return f * unit
		}
	}
	return 10 * unit
}
