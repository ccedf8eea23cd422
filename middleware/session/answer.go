package session

import "net/http"

// beforeHeader puts what is to be said of the session into the header.
func (q *request[T]) beforeHeader(status int) (answered bool) {
	q.mu.Lock()
	q.sent, q.blind = true, !q.used && status != http.StatusSwitchingProtocols
	header := q.w.Header()
	if q.used {
		header.Add("Vary", q.transport.Header())
	}
	failed := q.failed
	if q.m.opts.Anonymous || !q.used {
		failed = nil
	}
	switch {
	case q.given != nil:
		q.transport.Give(header, q.given.token, q.given.last)
		header.Set("Cache-Control", "no-store")
	case failed != nil, q.used && q.now != nil && header.Get("Cache-Control") == "":
		header.Set("Cache-Control", "no-store")
	}
	q.mu.Unlock()
	if failed == nil {
		return false
	}
	// What the handler said of its answer does not hold for this one.
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Location"} {
		header.Del(name)
	}
	q.m.opts.ErrorHandler(q.w.ResponseWriter, q.r, failed)
	return true
}

// replace makes now the request's session and gives it to the client. False: it is
// too late for that, and nothing was done.
func (q *request[T]) replace(now *current[T], g *given) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return false
	}
	q.set(now)
	q.given = g
	return true
}

// drop leaves the request without a session, and its client without a token, unless
// it is too late for that or the token may be another session's by now.
func (q *request[T]) drop(had bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.sent && (had || q.shown && !q.ended) {
		q.given = &given{}
	}
	q.set(nil)
}

// adopt makes the anonymous session now the request's, unless it has another by
// now, or it is too late for a cookie.
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

// headerSent returns ErrHeaderSent if it is too late for a cookie.
func (q *request[T]) headerSent() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return ErrHeaderSent
	}
	return nil
}
