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
		"bars":        Bars{Title: hostile, Groups: bars}.SVG(),
		"log":         Bars{Title: hostile, Log: true, Groups: bars}.SVG(),
		"columns":     Columns{Shows: hostile, Columns: []Column{{Label: hostile}, {Value: 1e9, Own: 3}, {Value: 1}}, Bands: []Band{{1, 1, hostile}}}.SVG(),
		"no deaths":   Columns{Columns: make([]Column, 3)}.SVG(),
		"no columns":  Columns{}.SVG(),
		"curve":       Curve{Shows: hostile, Right: func(float64) string { return hostile }, Points: []Point{{Value: 2e4, Label: hostile}, {Value: 7, Own: hostile}, {Label: "none"}}}.SVG(),
		"level":       Curve{Points: []Point{{Value: 1}, {Value: 1}, {Value: 1, Own: "here"}}}.SVG(),
		"no points":   Curve{}.SVG(),
		"many scales": Curve{Points: []Point{{Value: 1e12}, {Value: 1e-12}}}.SVG(),
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
		if n := strings.Count(svg, "<line"); n > 12 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}

// A chart in a page reaches from its left to its right, whatever is in it.
func TestColumnsFillTheField(t *testing.T) {
	svg := Columns{Columns: []Column{{Value: 30}, {}, {Value: 50, Own: 25}, {Value: 0.001}}}.SVG()
	for _, want := range []string{
		`<rect class="b" x="2.50%" y="90" width="20.00%" height="96"/>`,
		`<rect class="b" x="52.50%" y="26" width="20.00%" height="160"/>`,
		`<rect class="o" x="52.50%" y="106" width="20.00%" height="80"/>`,
		`<rect class="b" x="77.50%" y="185" width="20.00%" height="1"/>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is not in:\n%s", want, svg)
		}
	}
	if n := strings.Count(svg, "<rect"); n != 4 {
		t.Errorf("%d columns", n)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}
