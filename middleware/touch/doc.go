// Package touch keeps the records behind net/http resources alive by access. A short link
// lives as long as people follow it, a shared file as long as they fetch it.
//
//	links, err := slidingttl.New(d, slidingttl.Policy{...}, nil)
//	...
//	touches, err := touch.New(links, touch.PathValue("id"), nil)
//	...
//	mux.Handle("GET /{id}", touches.Middleware(redirect))
//	...
//	err = touches.Close(ctx) // before the store's
//
// It is for handlers that do not read their record by the store's own Get, which touches
// already, but from a cache, a replica, a repository, or with Peek.
//
// The touch comes after the handler's answer, and only if that was a success: an answer that takes longer than its
// record has left to live ends too late. A handler of such answers touches the record before too. It runs in
// the background, so that no client waits for it. If all Options.Workers are busy, the
// request makes the touch itself, because a slow store is no reason to drop it. The store
// remembers hot keys, so most accesses to them make no trip. A touch never creates a
// record.
package touch
