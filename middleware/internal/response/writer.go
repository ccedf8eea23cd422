// Package response watches an http.ResponseWriter for the moment before its header
// leaves.
package response

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// Writer passes a response on to the ResponseWriter inside and calls Before once,
// right before the header leaves: at the first WriteHeader that is final, Write,
// Flush or Hijack. It serves http.Flusher, http.Hijacker, http.CloseNotifier, io.ReaderFrom,
// io.StringWriter and, through Unwrap, an http.ResponseController.
type Writer struct {
	http.ResponseWriter

	// Before is given the final status and may change the header. If it returns
	// true it has answered the request itself and what follows is dropped.
	Before func(status int) (answered bool)

	// Refuses reports whether Before would answer. Nil: it would not.
	Refuses func() bool

	begun   atomic.Bool
	dropped bool // by Before, which runs before whatever reads it
	status  int
}

// Begun reports whether the header was sent.
func (w *Writer) Begun() bool { return w.begun.Load() }

// Status returns the status that was sent; 200 if the handler sent none.
func (w *Writer) Status() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

// Begin calls Before unless that was done, and reports whether the response is
// still the handler's.
func (w *Writer) Begin(status int) bool {
	if !w.begun.Load() && !w.begun.Swap(true) {
		w.status = status
		if w.Before != nil {
			w.dropped = w.Before(status)
		}
	}
	return !w.dropped
}

// WriteHeader implements http.ResponseWriter. Informational statuses but for 101
// are no answer yet.
func (w *Writer) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.Begin(status) {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.Begin(http.StatusOK) {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// WriteString implements io.StringWriter.
func (w *Writer) WriteString(s string) (int, error) {
	if !w.Begin(http.StatusOK) {
		return len(s), nil
	}
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom implements io.ReaderFrom, so that a file still goes out by sendfile.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	if !w.Begin(http.StatusOK) {
		return io.Copy(io.Discard, r)
	}
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements http.Flusher.
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError is Flush for an http.ResponseController.
func (w *Writer) FlushError() error {
	if !w.Begin(http.StatusOK) {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. What Before put into the header is the
// hijacker's to send. After a failure, as over HTTP/2, the response has not begun.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.Refuses != nil && w.Refuses() && !w.Begin(http.StatusSwitchingProtocols) {
		return nil, nil, http.ErrHijacked
	}
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.Begin(http.StatusSwitchingProtocols)
	}
	return conn, buf, err
}

// CloseNotify implements http.CloseNotifier, which gin's Stream still asks for. A ResponseWriter inside
// without it gives a channel that never receives.
func (w *Writer) CloseNotify() <-chan bool {
	if n, ok := w.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return make(chan bool)
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
