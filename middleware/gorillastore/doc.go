// Package gorillastore keeps the sessions of gorilla/sessions in a slidingttl store.
//
// So it does for gin-contrib/sessions and echo-contrib/session, which are made of those. The sessions
// then have an idle timeout and an absolute timeout, and a user can be logged out everywhere. An application that moves changes the lines that make its store, and no handler.
// Before:
//
//	store, err := redistore.NewRediStoreWithPool(pool, []byte("secret-key"))
//
// and after:
//
//	d, err := redis.New[session.Record](client, nil) // or another driver
//	...
//	store, err := gorillastore.New(d, &gorillastore.Options{Login: login})
//
// A Store is made of a [session.Manager], whose documentation says what this one does not.
//
// # What a request costs
//
// Get makes one read, and none for a visitor without a cookie. It writes only if the stored
// expiry is due for a touch, with the default policy at most every three minutes a session. Save
// writes if the values changed. Where they did not, it makes no call to the store: a program that
// saves in every request, so that its sessions do not expire, may go on to do so.
//
// Save sends the cookie when the session has a new token. It also sends it when session.Options
// are others than Store.Options, and when MaxAge is shorter than a session may live. If nothing was
// written then, Save makes a read, to see that the session lives. In any other case the client has
// the cookie already.
//
// # Two requests at once
//
// Save writes what its request has changed, by a compare-and-swap. Two requests that change
// different keys of Values both succeed, and the later one then has the other's changes in Values.
// Flash messages, and any other value of the type []any, are merged: what either request has taken
// is gone, and what either has added is there. If both changed the same key, Options.Merge
// decides. Without it the later Save returns a [*ConflictError] and writes nothing, even where both
// wrote the same value, because that may have been a counter. It does so too where the values of a user's session
// would together name another user. A Save that logs in has no conflicts: its own
// values win, so that a form that was submitted twice logs in once, and what another request has saved in the former
// user's session since this one read it is not taken along.
//
// What a value points to counts as part of the value: Save compares what gob makes of it.
//
// # Logout
//
// A Save with a negative Options.MaxAge ends the session on the server and in the client. A MaxAge
// of zero does not: it makes a cookie that lasts until the browser closes, as gorilla's Options
// say. A request that had read the session before cannot bring it back: a Save that changes something,
// or is to give a new token, returns [session.ErrEnded], and sends no cookie. So does such a Save in the request
// that has called RevokeAll: there MaxAge -1 ends the session and its cookie, and a request that goes on
// excepts session.ID from RevokeAll.
//
// A request counts from its first Get. Call it before you read a long body: an upload that asks for its session only
// after another request has logged in shows a former token, as any later visitor may, and its Save then replaces the
// cookie of the login by that of a new anonymous session.
//
// # Login and session fixation
//
// Options.Login names the user of a session by its Values. When a Save finds another user than
// the one in the store, it ends the session and begins another one with a new token. So a cookie
// that somebody planted before a login gives access to nothing after it, and the absolute timeout
// counts from the login. A user who is removed from Values is logged out, and what else Values has
// goes on in an anonymous session.
//
// For a new token at other times set session.ID to "" before Save. Session, ID and absolute timeout
// stay, also if the same user has logged in again, and the changes are in the same write. The former token
// opens nothing from then on. A Save with it returns session.ErrEnded for
// Options.Sessions.RenewGrace. A request that had read the session before may still save, but not
// renew the token too: that is session.ErrEnded.
//
// Set Options.Login from the start. A session that a release without it has begun is on no user's index, and
// RevokeAll does not find it, until a Save replaces it. A release without Options.Login
// takes the sessions of one with it for a logout, so the two must not run side by side. To
// introduce it, set another Options.Sessions.KeyPrefix too: all users then log in once more.
//
// Sessions().RevokeAll ends the sessions of a user, and List shows them. A login beyond
// Options.Sessions.MaxPerUser, by default 32, ends the user's session that was begun first.
//
// # The cookie
//
// It has a token of 384 random bits. The store has only a hash of it, and session.ID, once the
// session was saved, is another such hash: it may be logged, and gives no access. A cookie that is
// not a token, is present twice, or belongs to a session of another name counts as none, and is
// no error. Keys to sign cookies with are not needed.
//
// A cookie's Path or Domain changes together with the session's name: a browser keeps the former cookie beside a
// new one of another path, and of two tokens nothing tells which is good. A Save that sends the cookie again, because its
// MaxAge is shorter than the session or its Options differ, sends the token that its request has shown: if another
// request logs in meanwhile and is answered before, the browser keeps the former token, and its user logs in once more.
//
// By default the cookie is Secure, HttpOnly, SameSite=Lax, for the path /, and lasts until the
// browser closes. Store.Options and session.Options change that. As on other stores of gorilla, Cache-Control
// and Vary are the program's to set. Over plain http, other than on
// localhost, a browser does not send it until Secure is turned off. MaxAge is how long the browser keeps the cookie; how long the
// session lives is said by the policy.
//
// # Errors
//
// Get returns a new session with every error, as gorilla's stores do. If the store failed, a Save
// of that session fails too. If Values do not decode, because a type is not registered with gob for
// instance, Save fails while the new session has no Values. Once it has some, it replaces that one.
package gorillastore
