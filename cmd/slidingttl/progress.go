package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// progress is the progress of an operation.
type progress struct {
	operation string
	about     int64            // records that the store holds, as it estimates; zero: it does not say
	first     *upkeep.Progress // nil: nothing was told yet
	last      atomic.Pointer[upkeep.Progress]
	steering
}

// show reports the progress of p until hide is called. It uses one line of a terminal, else lines
// of log at intervals.
func (a *app) show(ctx context.Context, p *paceFlags, what string, s *store) (hide func(), err error) {
	g, stop := &progress{operation: what, steering: steering{limits: p.Limits}}, func() {}
	if s.about != nil {
		g.about = s.about(ctx)
	}
	if p.metrics != "" {
		if stop, err = g.serve(p.metrics); err != nil {
			return nil, err
		}
	}
	p.Steer = g.now
	unsignal := g.signals()
	log, next := slog.New(slog.NewTextHandler(a.err, nil)), time.Now().Add(p.progress)
	p.Progress = func(now upkeep.Progress) {
		if g.first == nil {
			g.first = &now
		}
		g.last.Store(&now)
		switch {
		case a.asks:
			a.line(what + ": " + g.text(now))
		case p.progress > 0 && !time.Now().Before(next):
			next = time.Now().Add(p.progress)
			log.Info(what, "at", g.text(now), "cost", now.Cost, "failed", now.Failed)
		}
	}
	return func() {
		stop()
		unsignal()
		a.line("")
	}, nil
}

// line overwrites the line of progress, if there is a terminal. A text that is wider than the terminal
// is cut: it would take a second line, which is not overwritten.
func (a *app) line(text string) {
	if a.asks {
		if a.width != nil {
			if most := a.width() - 1; most > 0 && len(text) > most { // it is ASCII
				text = text[:most]
			}
		}
		_, _ = fmt.Fprint(a.err, "\r\x1b[K")
		_, _ = io.WriteString(printable{a.err}, text)
	}
}

// text returns the progress as text. An example is "12000 of about 300000 records (4 %), 480 a
// second, about 10m0s left, 11800 writes, 1 of 4 segments done".
func (g *progress) text(now upkeep.Progress) string {
	var b strings.Builder
	seen, rate := now.Records+now.Passed, 0.0
	if ran := now.Elapsed - g.first.Elapsed; ran > 0 {
		rate = float64(seen-g.first.Records-g.first.Passed) / ran.Seconds()
	}
	if most := max(g.about, seen); g.about > 0 {
		fmt.Fprintf(&b, "%d of about %d records (%d %%)", seen, most, 100*seen/most)
	} else {
		fmt.Fprintf(&b, "%d records", now.Records)
	}
	if rate > 0 {
		fmt.Fprintf(&b, ", %.0f a second", rate)
	}
	if left := float64(g.about - seen); left > 0 && rate > 0 {
		fmt.Fprintf(&b, ", about %v left", time.Duration(left/rate*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintf(&b, ", %d writes, %d of %d segments done", now.Writes, now.Done, now.Segments)
	return b.String()
}
