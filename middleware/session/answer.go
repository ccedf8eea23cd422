package session

import (
	"net/http"
	"strings"
)

// writeLines writes the session's lines into the header, once, before it leaves. failed: ErrorHandler has
// to answer; nil: it has not.
func (q *request[T]) writeLines(status int) (failed error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return nil // written after a panic, which the code around answers through the same writer
	}
	q.sent, q.blind = true, !q.used && status != http.StatusSwitchingProtocols
	header := q.w.Header()
	if q.used {
		header.Add("Vary", q.transport.Header())
	}
	failed = q.unreadable()
	switch {
	case q.given != nil:
		q.transport.Give(header, q.given.token, q.given.last)
		header.Set("Cache-Control", "no-store")
	case failed != nil, q.used && q.now != nil && header.Get("Cache-Control") == "":
		header.Set("Cache-Control", "no-store")
	}
	return failed
}

// beforeHeader is writeLines, and answers for a handler whose session could not be read.
func (q *request[T]) beforeHeader(status int) (answered bool) {
	failed := q.writeLines(status)
	if failed == nil {
		return false
	}
	header := q.w.Header()
	// The handler's headers were for its own answer, not for this one.
	for name := range header {
		switch name {
		case "Etag", "Last-Modified", "Location", "Refresh", "Link", "Accept-Ranges":
			delete(header, name)
		default:
			if strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "Content-Security-Policy") {
				delete(header, name)
			}
		}
	}
	q.m.opts.ErrorHandler(q.w.ResponseWriter, q.r, failed)
	return true
}

// unreadable returns why the request is answered by ErrorHandler; nil: it is not. The caller holds
// the lock.
func (q *request[T]) unreadable() error {
	if q.m.opts.Anonymous || !q.used {
		return nil
	}
	return q.failed
}

// refuses reports whether the request is answered by ErrorHandler.
func (q *request[T]) refuses() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unreadable() != nil
}

// replace makes now the request's session and gives its token to the client. was is now before its token was
// renewed; nil: another session. False: the header has left, and nothing was done.
func (q *request[T]) replace(was, now *current[T], g *given) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return false
	}
	overtaken := was != nil && q.now != was
	if q.set(now); overtaken {
		q.reread()
	}
	q.given = g
	return true
}

// drop takes the session from the request and the token from its client, unless the header
// has left or the token may already be another session's.
func (q *request[T]) drop(had bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.sent && (had || q.shown && !q.ended) {
		q.given = &given{}
	}
	q.set(nil)
}

// adopt makes the anonymous session now the request's, unless the request already has
// another, or the header has left.
func (q *request[T]) adopt(now *current[T]) (other bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.now != nil:
		return true, nil
	case q.sent:
		return false, ErrHeaderSent
	}
	q.now, q.given = now, q.m.give(now)
	return false, nil
}

// gives reports whether the request's own answer will bring its client the token of now, or returns
// ErrHeaderSent.
func (q *request[T]) gives(now *current[T]) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return false, ErrHeaderSent
	}
	return q.given != nil && q.given.token == now.token.String(), nil
}

// headerSent returns ErrHeaderSent if it is too late for a cookie.
func (q *request[T]) headerSent() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return ErrHeaderSent
	}
	return nil
}
