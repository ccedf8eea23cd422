// Package session gives net/http servers sessions with an idle timeout and an absolute
// timeout. It stores them by any driver of package slidingttl.
//
//	type Data struct {
//		Cart  []string
//		Flash string
//	}
//
//	d, err := memory.New[session.Record](nil)
//	...
//	sessions, err := session.New[Data](d, nil)
//	...
//	http.ListenAndServeTLS(addr, cert, key, sessions.Middleware(mux))
//
// and in a handler:
//
//	s, err := sessions.Get(ctx)          // s.Data, s.User, s.IdleExpiry, ...
//	err = sessions.Update(ctx, func(d *Data) error {
//		d.Cart = append(d.Cart, item)
//		return nil
//	})
//	err = sessions.Login(ctx, session.Login{User: "42", Remember: true}, nil)
//	err = sessions.Renew(ctx)            // a new token after a change of privilege
//	err = sessions.Destroy(ctx)          // logout
//
// # What a request costs
//
// The middleware does nothing until a handler asks for the session. A visitor
// without a cookie costs no store call and is sent none. A request that asks costs
// one read; it writes only if the stored expiry is due for a touch, with the
// default policy at most every three minutes a session. Update writes at once and
// only if the data changed; nothing is left to save when the handler returns.
//
// # Concurrency
//
// All methods are safe for concurrent use, between requests and within one. Update is a
// compare-and-swap. Two requests that change different things both succeed: after a
// conflict Update runs its function again on the other request's result. A request that
// only reads writes no data, so a slow one can neither undo another's change nor bring back
// a session that was destroyed meanwhile.
//
// # Life and renewal
//
// A session begins with its first Update or with a Login and has the two limits
// of its [slidingttl.Policy]: Options.Policy, or Options.Remember for a Login that
// says so. Login starts a new session, with a new token and the absolute timeout
// counting from then, and ends the visitor's former one; data of an anonymous
// session is taken along. A login submitted twice joins the session that it began
// the first time. Renew only changes the token: the record, its ID and its
// absolute timeout stay. Rotate changes the data in the same write.
//
// Validity is checked at the request's arrival time, even if the handler reads the session
// later. A request that arrives up to Options.RenewGrace after a renewal may show the
// former token, however long it then takes, so that requests in flight are not logged out.
// Concurrent renewals count as one. A former token that comes later opens no session, keeps
// none alive, and is reported to Options.OnReplay: it was copied, or a client lost an
// answer. Login has no grace: a token from before a login never gives access to what the
// login opened. To shut out another user of the token, use Login instead of Renew.
//
// Whether a request may still write is decided by when it arrived, too. A session that
// ends, by a logout, a login or a revocation, leaves a mark for Options.MaxRequest. A
// request that arrived before the end cannot write: it gets ErrEnded, and begins no
// session whose cookie would replace a newer one. A request that arrives after the end
// gets a new anonymous session with its first Update, also if it shows the old token.
// There are two exceptions, which get ErrEnded. After a Login, requests with the old
// token do so for Options.RenewGrace, because the client may not have the new token yet. A request
// that first asks for its session more than RenewGrace after it arrived, and finds it
// gone, does so because the client may have another session by then.
//
// Destroy tells the client to forget its token. So do Revoke and RevokeAll where they
// end the session of the request that calls them.
//
// # Tokens and what the store sees
//
// A token is 384 bits from crypto/rand: 128 that find the record and 256 that prove the
// right to it. The store has a hash of both, never the token. There is one exception: for
// Options.MaxRequest a login's token is kept for a second submission of that login, masked
// by the token that the login replaced. A session's ID is such a hash: it may be shown and
// logged, and gives no access.
//
// T is stored as JSON, so handlers never share a value. Give T json tags as for an API. The
// next Update drops unknown fields. Data that no longer decodes counts as no session and is
// reported to Options.OnError.
//
// # The cookie
//
// __Host-session; Secure; HttpOnly; SameSite=Lax; Path=/. It lasts until the browser
// closes or, for a remembered session, until the absolute timeout, and is sent only
// when it changes. Where a release with a longer Options.Remember prolongs a session that has begun,
// the browser keeps the cookie for as long as it was told, until Renew or Options.RenewEvery
// gives it a new one. A response that sets it has Cache-Control: no-store. A response
// to a request that looked at the session has Vary: Cookie and, unless the handler
// chose a Cache-Control and if there was a session, no-store. A cookie that
// is malformed, of another length or present twice counts as none and costs no
// store call.
//
// # Tokens in a header, and outside of net/http
//
// Over gives a part of a site another Transport than the cookie: Bearer, for API
// clients and mobile apps. Load and Commit are for requests that come by other
// protocols. Their sessions are like any other, and listed with the user's.
//
// # Requests that last, and other protocols
//
// A stream or a websocket looks at the session before its header leaves, and then
// asks Refresh from time to time, which says whether the session still lives and
// keeps it alive. A first Get after the header is ErrHeaderSent, for the header could
// no longer say that the answer is one visitor's own.
//
// A handler that hijacks the connection writes its own header: the session's lines
// are in w.Header() once Hijack has returned, Set-Cookie among them if the request
// began or renewed a session, and are the handler's to send. Websocket libraries
// that take a header for the 101 answer hijack by themselves, too late to look:
// call Get, and whatever may set a cookie, before.
//
// Only a request that asks for its session is an access. A user who is busy for
// longer than the idle timeout on pages whose handlers never ask is logged out:
// call Get there, or set Options.KeepAlive.
//
// # Clocks
//
// Servers that share a store should agree on the time: each judges by its own
// (or the store's, where the driver knows that). A clock that is ahead by some
// seconds ends sessions, and Options.RenewGrace, by so much earlier. When one server
// ends a session, another one compares that time with the arrival of its requests. If
// the first clock is ahead, requests with the old token get ErrEnded for that much
// longer. If it is behind, requests that arrived so shortly before the end may begin
// an anonymous session.
//
// # Plain http
//
// Browsers refuse a "__Host-" cookie over plain http, so that logins there seem to
// be forgotten at once. For development on one machine there is
// Options.InsecureLocalhost; any other host needs a certificate, if only one of a
// private authority.
//
// # When the store is down
//
// A request whose session could not be read is answered by Options.ErrorHandler, by
// default 503 without details and a line in Options.Logger, in place of what the
// handler writes from then on; the handler need only return. The store is asked once
// a request. A store that has not answered a call within 10 s counts as down, where its context
// does not end before. With Options.Anonymous such a visitor has no session instead. An Update, Login, Renew or Destroy that cannot write says so to
// the handler.
//
// # Users
//
// Each user's sessions are listed in an index record, so that List, Revoke and
// RevokeAll need no scan on any driver. Its life slides with each login and always
// outlasts the sessions in it, whatever policies later releases have: the first access by a
// longer policy extends the index, and only then the session. A policy that is shorter does not
// shorten an index. Revoke, RevokeAll and Destroy also end a session that the policies here
// have ended and those of another release have not. So does a Login by its token.
package session
