package gorillastore

import gorilla "github.com/gorilla/sessions"

// Gin is a Store for gin-contrib/sessions, of which O is the type Options:
//
//	router.Use(sessions.Sessions("mysession", gorillastore.Gin[sessions.Options]{Store: store}))
type Gin[O interface {
	ToGorillaOptions() *gorilla.Options
}] struct {
	*Store
}

// Options sets Store.Options. Call it before the Store is used.
func (g Gin[O]) Options(o O) { g.Store.Options = o.ToGorillaOptions() }
