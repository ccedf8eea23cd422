package chart

// Columns is a chart of columns side by side.
type Columns struct {
	Shows   string // in words
	Columns []Column
	Most    float64 // the highest column's value, at least 1
}

// Column is one column.
type Column struct {
	Value  float64
	Own    float64 // the part of Value at the foot, in the strong colour
	Marked bool
	Label  string // below the column; there is room for four
}

// SVG draws c as a part of a page.
func (c Columns) SVG() string {
	most := max(c.Most, 1)
	var d drawing
	d.begin(c.Shows)
	for _, part := range []float64{0, 0.5, 1} {
		d.grid(part, Amount(most*part), "")
	}
	wide := (1 - side) / float64(len(c.Columns))
	for i, col := range c.Columns {
		x := side + wide*float64(i)
		if col.Marked {
			d.rect("s", percent(x), above-8, percent(wide), field+8)
		}
		bar := func(class string, v float64) {
			if high := max(field*v/most, 1); v > 0 { // a few are not none
				d.rect(class, percent(x+wide/10), above+field-high, percent(wide*0.8), high)
			}
		}
		bar("b", col.Value)
		bar("o", col.Own)
		d.label(x+wide/2, "m", col.Label)
	}
	return d.end()
}
