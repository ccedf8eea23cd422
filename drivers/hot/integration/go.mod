module github.com/slidingttl/slidingttl/drivers/hot/integration

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/slidingttl/slidingttl v0.1.0
	github.com/slidingttl/slidingttl/drivers/hot v0.1.0
	github.com/slidingttl/slidingttl/drivers/redis v0.1.0
	go.uber.org/goleak v1.3.0
)
