module github.com/slidingttl/slidingttl

go 1.26.0

require (
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
)
