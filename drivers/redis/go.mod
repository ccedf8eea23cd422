module github.com/slidingttl/slidingttl/drivers/redis

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/redis/rueidis v1.0.79
	github.com/slidingttl/slidingttl v0.1.0
	go.uber.org/goleak v1.3.0
)
