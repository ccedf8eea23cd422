module github.com/slidingttl/slidingttl/bench

go 1.26.0

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/gorilla/securecookie v1.1.2
	github.com/gorilla/sessions v1.4.0
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/jellydator/ttlcache/v3 v3.4.1
	github.com/maypok86/otter/v2 v2.4.0
	github.com/patrickmn/go-cache v2.1.0+incompatible
	github.com/slidingttl/slidingttl v0.0.0
	golang.org/x/sync v0.24.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	golang.org/x/sys v0.36.0 // indirect
)

replace github.com/slidingttl/slidingttl => ../
