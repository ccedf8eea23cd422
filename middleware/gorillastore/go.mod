module github.com/slidingttl/slidingttl/middleware/gorillastore

go 1.26.0

require (
	github.com/gorilla/sessions v1.4.0
	github.com/slidingttl/slidingttl v0.1.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/gorilla/securecookie v1.1.2 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
