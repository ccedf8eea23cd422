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
// It is for handlers that read their record by other means than the store's own Get,
// which touches already: from a cache, a replica, a repository, or with Peek.
//
// The touch comes after the handler's answer and only if that was a success. It runs
// in the background, so that no client waits for it, unless Options.Workers are all
// busy: then the request does it itself, for a promise is not dropped because the
// store is slow. What the store last said of a key is remembered, so for a hot key
// most accesses are no trip at all. A touch never creates a record.
package touch
