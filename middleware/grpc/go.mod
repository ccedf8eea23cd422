module github.com/slidingttl/slidingttl/middleware/grpc

go 1.26.0

require (
	github.com/slidingttl/slidingttl v0.1.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.56.0
	google.golang.org/grpc v1.82.1
	google.golang.org/protobuf v1.36.11
)

require (
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.39.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478 // indirect
)
