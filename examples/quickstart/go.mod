module github.com/slidingttl/slidingttl/examples/quickstart

go 1.26.0

require github.com/slidingttl/slidingttl v0.1.0

require (
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
