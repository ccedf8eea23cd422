package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const hostile = `<a & "b">`

func TestChartsAreWellFormed(t *testing.T) {
	bars := []Group{{Title: "g", Bars: []Bar{{Label: "zero"}, {Label: "one", Value: 0.03, Own: true}, {Label: "two", Value: 900}}}}
	for name, svg := range map[string]string{
		"bars":       Bars{Title: hostile, Groups: bars}.SVG(),
		"log":        Bars{Title: hostile, Log: true, Groups: bars}.SVG(),
		"columns":    Columns{Shows: hostile, Most: 1e9, Columns: []Column{{Label: hostile}, {Value: 1e9, Own: 3, Marked: true}, {Value: 1}}}.SVG(),
		"no deaths":  Columns{Columns: make([]Column, 3)}.SVG(),
		"no columns": Columns{}.SVG(),
		"curve":      Curve{Shows: hostile, Right: 7, Points: []Point{{Value: 2e4, Label: hostile}, {Value: 7, Label: hostile, Own: true}, {Label: "none"}}}.SVG(),
		"level":      Curve{Points: []Point{{Value: 1}, {Value: 1}, {Value: 1, Own: true}}}.SVG(),
		"no points":  Curve{}.SVG(),
	} {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v in:\n%s", name, err, svg)
			}
		}
		for _, bad := range []string{"NaN", "Inf", `="-`, hostile, "<a ", "%!"} {
			if strings.Contains(svg, bad) {
				t.Errorf("%s: %q is in:\n%s", name, bad, svg)
			}
		}
	}
}

// What is drawn, and where: the longest bar and the highest column fill their room, a decade is as
// high as another, and all stays within the chart.
func TestChartsAreDrawn(t *testing.T) {
	for name, c := range map[string]struct{ svg, want string }{
		"bars": {Bars{Title: "T", Unit: "ns", Groups: []Group{{"one", []Bar{{"a", 50, true}, {"b", 100, false}}}, {"two", []Bar{{"none", 0, false}}}}}.SVG(), Style + `</style>
<rect class="bg" x="0.5" y="0.5" width="759" height="212" rx="8"/>
<text class="t" x="20" y="30" style="font-size:16px;font-weight:600">T</text>
<text class="m" x="20" y="50">ns</text>
<text class="t" x="20" y="82" style="font-weight:600">one</text>
<line class="a" x1="220" y1="89" x2="220" y2="132"/>
<rect class="o" x="220" y="92" width="230.0" height="16"/>
<text class="t" x="212" y="105" style="text-anchor:end;font-weight:600">a</text>
<text class="m" x="457" y="105">50</text>
<rect class="b" x="220" y="113" width="460.0" height="16"/>
<text class="t" x="212" y="126" style="text-anchor:end">b</text>
<text class="m" x="687" y="126">100</text>
<text class="t" x="20" y="168" style="font-weight:600">two</text>
<line class="a" x1="220" y1="175" x2="220" y2="197"/>
<rect class="b" x="220" y="178" width="0.0" height="16"/>
<text class="t" x="212" y="191" style="text-anchor:end">none</text>
<text class="m" x="227" y="191">0</text>
</svg>
`},
		"logarithmic bars": {Bars{Log: true, Groups: []Group{{"", []Bar{{"", 20, false}, {"", 2000, false}}}}}.SVG(), `
<line class="a" x1="220" y1="89" x2="220" y2="132"/>
<rect class="b" x="220" y="92" width="92.2" height="16"/>
<text class="m" x="319" y="105">20</text>
<rect class="b" x="220" y="113" width="460.0" height="16"/>
<text class="m" x="687" y="126">2000</text>
</svg>
`},
		"columns": {Columns{Shows: "deaths", Most: 50, Columns: []Column{{Value: 30, Label: "today"}, {}, {Value: 50, Own: 25, Marked: true}, {Value: 0.001}, {Label: "end"}}}.SVG(), `<svg width="100%" height="208" role="img" aria-label="deaths">
<line class="a" x1="0" y1="186" x2="100%" y2="186"/>
<text class="m" x="0" y="182">0</text>
<line class="a" x1="0" y1="106" x2="100%" y2="106"/>
<text class="m" x="0" y="102">25</text>
<line class="a" x1="0" y1="26" x2="100%" y2="26"/>
<text class="m" x="0" y="22">50</text>
<rect class="b" x="16.70%" y="90" width="13.60%" height="96"/>
<text class="m" x="23.50%" y="202" text-anchor="middle">today</text>
<rect class="s" x="49.00%" y="18" width="17.00%" height="168"/>
<rect class="b" x="50.70%" y="26" width="13.60%" height="160"/>
<rect class="o" x="50.70%" y="106" width="13.60%" height="80"/>
<rect class="b" x="67.70%" y="185" width="13.60%" height="1"/>
<text class="m" x="91.50%" y="202" text-anchor="end">end</text>
</svg>
`},
		"curve": {Curve{Shows: "touches", Right: 2, Points: []Point{{Value: 1000, Label: "none"}, {Value: 100, Label: "3d", Own: true}, {Value: 20}, {Label: "30d", Own: true}}}.SVG(), `<svg width="100%" height="208" role="img" aria-label="touches">
<line class="a" x1="0" y1="186" x2="100%" y2="186"/>
<text class="m" x="0" y="182">10</text>
<text class="m" x="100%" y="182" text-anchor="end">20</text>
<line class="a" x1="0" y1="133" x2="100%" y2="133"/>
<text class="m" x="0" y="129">100</text>
<text class="m" x="100%" y="129" text-anchor="end">200</text>
<line class="a" x1="0" y1="79" x2="100%" y2="79"/>
<text class="m" x="0" y="75">1,000</text>
<text class="m" x="100%" y="75" text-anchor="end">2,000</text>
<line class="a" x1="0" y1="26" x2="100%" y2="26"/>
<text class="m" x="0" y="22">10,000</text>
<text class="m" x="100%" y="22" text-anchor="end">20,000</text>
<text class="m" x="23.75%" y="202" text-anchor="middle">none</text>
<line class="a" x1="41.25%" y1="133" x2="41.25%" y2="186"/>
<circle class="o" cx="41.25%" cy="133" r="6"/>
<text class="t" x="41.25%" y="202" text-anchor="middle">3d</text>
<text class="m" x="76.25%" y="202" text-anchor="middle">30d</text>
<svg width="100%" height="208" viewBox="0 0 1000 208" preserveAspectRatio="none"><polyline class="l" vector-effect="non-scaling-stroke" points="237.5,79 412.5,133 587.5,170 "/></svg></svg>
`},
		"share": {Share(0.25), `<svg width="100%" height="12" aria-hidden="true"><rect class="o" x="0" y="0" width="25.00%" height="12"/>
</svg>
`},
		"more than all": {Share(2), ` width="100.00%" height="12"/>
</svg>
`},
	} {
		if !strings.HasSuffix(c.svg, c.want) {
			t.Errorf("%s: want at its end\n%s\nin\n%s", name, c.want, c.svg)
		}
	}
	if svg := (Curve{Points: []Point{{Value: 3}}}).SVG(); strings.Count(svg, "text-anchor=\"end\"") > 0 {
		t.Errorf("a curve without a scale at its right has one: %s", svg)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64][2]string{
		0: {"0", "0"}, 7: {"7", "7"}, 0.0123: {"0.0123", "0.0123"}, 0.1: {"0.10", "0.10"}, 9.876: {"9.88", "9.88"}, 10.04: {"10.0", "10.0"},
		99.96: {"100.0", "100.0"}, 100.4: {"100", "100"}, 1000: {"1000", "1,000"}, 1e9: {"1000000000", "1,000,000,000"}, 1234567.6: {"1234568", "1,234,568"},
	} {
		if got := [2]string{Number(v), Amount(v)}; got != want {
			t.Errorf("%v is %q; want %q", v, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}
