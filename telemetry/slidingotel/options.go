package slidingotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options adjusts New. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// TracerProvider creates the spans. Nil: the global one.
	TracerProvider trace.TracerProvider

	// MeterProvider takes the metrics. Nil: the global one.
	MeterProvider metric.MeterProvider
}

func (o Options) withDefaults() Options {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	return o
}

// Database describes the database behind a driver, for spans and metrics. Only System is
// required.
type Database struct {
	// System is db.system.name: "couchbase", "aws.dynamodb", "redis", "postgresql",
	// "mysql", "mariadb", "sqlite", "azure.cosmosdb". For a store that the
	// conventions do not know, as this process's memory, any other word.
	System string

	// Namespace is db.namespace: the bucket, the database.
	Namespace string

	// Collection is db.collection.name: the collection, the table. Not a key.
	Collection string

	// Address and Port are server.address and server.port. Zero: not told.
	Address string
	Port    int
}

func (d Database) validate() error {
	if d.System == "" {
		return &driver.InvalidError{Field: "Database.System", Value: "empty", Rule: `is required, as in "redis"`}
	}
	return nil
}
