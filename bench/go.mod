module github.com/slidingttl/slidingttl/bench

go 1.26.0

replace github.com/slidingttl/slidingttl => ../

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/gorilla/securecookie v1.1.2
	github.com/gorilla/sessions v1.4.0
	github.com/slidingttl/slidingttl v0.0.0-00010101000000-000000000000
)

require (
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
