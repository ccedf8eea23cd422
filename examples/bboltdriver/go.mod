module github.com/slidingttl/slidingttl/examples/bboltdriver

go 1.26.0

require (
	github.com/slidingttl/slidingttl v0.1.0
	go.etcd.io/bbolt v1.5.0
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
