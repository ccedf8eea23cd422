module github.com/slidingttl/slidingttl/telemetry/integration

go 1.26.0

require (
	github.com/prometheus/client_golang v1.23.2
	github.com/redis/rueidis v1.0.79
	github.com/slidingttl/slidingttl v0.1.0
	github.com/slidingttl/slidingttl/drivers/redis v0.1.0
	github.com/slidingttl/slidingttl/telemetry/slidingotel v0.1.0
	github.com/slidingttl/slidingttl/telemetry/slidingprom v0.1.0
	go.opentelemetry.io/otel/exporters/prometheus v0.61.0
	go.opentelemetry.io/otel/sdk v1.39.0
	go.opentelemetry.io/otel/sdk/metric v1.39.0
	go.uber.org/goleak v1.3.0
)
