package session

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// reportPause is the least time between two lines in the log.
const reportPause = 10 * time.Second

// unavailable is the default ErrorHandler.
func (m *Manager[T]) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	m.report(r.Context(), slog.LevelError, "session: requests are answered 503 Service Unavailable", err)
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}

// survived reports a failure that no caller learns of.
func (m *Manager[T]) survived(ctx context.Context, err error) {
	switch {
	case err == nil:
	case m.opts.OnError != nil:
		m.opts.OnError(ctx, err)
	default:
		m.report(ctx, slog.LevelWarn, "session: a request continued after a failure", err)
	}
}

// report logs err, unless something was logged within reportPause.
func (m *Manager[T]) report(ctx context.Context, level slog.Level, message string, err error) {
	now, last := m.store.Now().UnixNano(), m.reported.Load()
	if last != 0 && now-last < int64(reportPause) || !m.reported.CompareAndSwap(last, now) {
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
