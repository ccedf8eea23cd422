package session

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// reportPause is the least time between two lines in the log.
const reportPause = 10 * time.Second

// unavailable is the default ErrorHandler.
func (m *Manager[T]) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // else the client has left, which says nothing of the store
		m.report(r.Context(), &m.refused, slog.LevelError, "session: requests are answered 503 Service Unavailable", err)
	}
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}

// survived reports a failure that no caller learns of.
func (m *Manager[T]) survived(ctx context.Context, err error) {
	switch {
	case err == nil:
	case m.opts.OnError != nil:
		m.opts.OnError(ctx, err)
	case !errors.Is(err, context.Canceled) || ctx.Err() == nil:
		m.report(ctx, &m.continued, slog.LevelWarn, "session: a request continued after a failure", err)
	}
}

// report logs err, unless last, the time of the line before, is within reportPause. A time in the
// future says that the clock was set back.
func (m *Manager[T]) report(ctx context.Context, last *atomic.Int64, level slog.Level, message string, err error) {
	now, was := m.store.Now().UnixNano(), last.Load()
	if since := now - was; was != 0 && since >= 0 && since < int64(reportPause) || !last.CompareAndSwap(was, now) {
		return
	}
	m.logger().Log(ctx, level, message, "error", err)
}

func (m *Manager[T]) logger() *slog.Logger {
	if m.opts.Logger == nil {
		return slog.Default()
	}
	return m.opts.Logger
}
