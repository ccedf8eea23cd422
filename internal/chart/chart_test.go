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

// The highest column is as high as the field, and the last ends where that does.
func TestColumnsFillTheField(t *testing.T) {
	svg := Columns{Most: 50, Columns: []Column{{Value: 30}, {}, {Value: 50, Own: 25}, {Value: 0.001}}}.SVG()
	for _, want := range []string{
		`<rect class="b" x="17.12%" y="90" width="17.00%" height="96"/>`,
		`<rect class="b" x="59.62%" y="26" width="17.00%" height="160"/>`,
		`<rect class="o" x="59.62%" y="106" width="17.00%" height="80"/>`,
		`<rect class="b" x="80.88%" y="185" width="17.00%" height="1"/>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is not in:\n%s", want, svg)
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
