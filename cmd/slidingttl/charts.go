package main

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/internal/chart"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// calendar adds a chart of c, with room for one beside it, and a table of the waves.
func (s *section) calendar(c survey.Calendar, beside ...survey.Calendar) {
	drawn := chart.Columns{Shows: "deaths by time; the table has the waves", Columns: make([]chart.Column, 1)}
	for _, c := range append(beside, c) {
		drawn.Columns = make([]chart.Column, max(len(drawn.Columns), len(c.Steps)))
		for _, step := range c.Steps {
			drawn.Most = max(drawn.Most, float64(step.Deaths))
		}
	}
	length, die, highest := time.Duration(c.Seconds)*time.Second, int64(0), int64(0)
	for _, step := range c.Steps {
		die, highest = die+step.Deaths, max(highest, step.Deaths)
	}
	s.Note = fmt.Sprintf("A column is %s, in UTC. Blue: at their cap, which no read moves. Grey: unless they are read first. Marked: a wave, over three times the mean and half of the highest.", policy.FormatDuration(length))
	for i := range drawn.Columns {
		begins := c.From.Add(time.Duration(i) * length).Format("2 Jan")
		if length < 24*time.Hour {
			begins = c.From.Add(time.Duration(i) * length).Format("2 Jan 15:04")
		}
		if n := len(drawn.Columns); i == 0 || i == n/2 || i == n-1 {
			drawn.Columns[i].Label = begins
		}
		if i >= len(c.Steps) {
			continue
		}
		step, col := c.Steps[i], &drawn.Columns[i]
		col.Value, col.Own = float64(step.Deaths), float64(step.Capped)
		if col.Marked = step.Deaths > max(3*die/int64(len(drawn.Columns)), highest/2); col.Marked {
			share := col.Value / float64(die+c.Later)
			s.Rows = append(s.Rows, row{Name: begins, Note: "wave", Bar: template.HTML(chart.Share(share)), Cells: []string{
				chart.Thousands(step.Deaths), fmt.Sprintf("%.2f\u00a0%%", 100*share), chart.Thousands(step.Capped) + " at their cap"}})
		}
	}
	s.Rows = append(s.Rows, row{Name: "later, or never", Cells: []string{chart.Thousands(c.Later)}})
	s.Chart = template.HTML(drawn.SVG())
}

// slacks adds a curve of what the touches of r cost with other slacks, and a table of it.
func (s *section) slacks(r *planned) {
	s.Note = "Touches a second (left), and their cost of 30 days at --price (right). Slack is how much longer than promised a record may live that nobody reads."
	curve := chart.Curve{Shows: "touches a second by slack"}
	if r.Touches > 0 {
		curve.Right = r.Money / r.Touches
	}
	own := slices.IndexFunc(r.BySlack, func(b bySlack) bool { return b.own })
	for i, b := range r.BySlack {
		point := chart.Point{Value: b.Touches, Own: b.own}
		row := row{Name: b.Slack, Cells: []string{chart.Amount(b.Touches) + " a second"}, Own: b.own}
		if b.Money > 0 {
			row.Cells = append(row.Cells, "cost "+chart.Amount(b.Money))
		}
		switch {
		case b.own:
			row.Note, point.Label = "this policy", b.Slack+": "+chart.Amount(b.Touches)
		case i%3 == 0 && i != own-1 && i != own+1:
			point.Label = b.Slack
		}
		curve.Points, s.Rows = append(curve.Points, point), append(s.Rows, row)
	}
	s.Chart = template.HTML(curve.SVG())
}
