package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

func TestSVGIsWellFormed(t *testing.T) {
	for _, log := range []bool{false, true} {
		svg := SVG(runner.Chart{Title: `<a & "b">`, Log: log, Groups: []runner.Group{
			{Title: "g", Bars: []runner.Bar{{Label: "zero"}, {Label: "one", Value: 0.03, Own: true}, {Label: "two", Value: 900}}},
		}})
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in:\n%s", err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, `width="-`) {
			t.Errorf("a bar has no length:\n%s", svg)
		}
	}
}
