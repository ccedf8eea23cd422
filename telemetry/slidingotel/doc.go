// Package slidingotel reports metrics and spans of slidingttl by OpenTelemetry. It has the
// metrics of telemetry/README.md for each store, and a span and a duration for each call of a
// driver.
//
//	t, err := slidingotel.New(nil)
//	...
//	traced, err := slidingotel.Wrap(t, d, slidingotel.Database{System: "redis", Collection: "session"})
//	...
//	observer, err := t.Observer("sessions")
//	...
//	store, err := slidingttl.New(traced, policy, &slidingttl.Options[Session]{Observer: observer})
//	...
//	err = t.Add("sessions", store)
//
// Each of the parts works without the others.
//
// # Calls of the driver
//
// Spans, and the histogram db.client.operation.duration, follow the stable semantic
// conventions for database clients (semconv v1.34.0). db.operation.name is the method of
// the driver: get, latest, read_touch, insert, replace, upsert, overwrite, touch, delete,
// remove, check, segments, scan, dying, raw, mend, erase_ended, scrub, and "BATCH get" for a
// GetMulti of two keys or more. One call is one span, however many requests the driver needs for it.
//
// "Not found" and a conflict are answers and not failures: such a span has the attribute
// slidingttl.answer, and no error.type. The class of an error is one of
// telemetry/README.md. A touch runs on its own context with the values of its caller's, so
// the parent of its span is the read that found it due.
//
// Nothing of this contains a key. The status of a span has the error's text, which contains
// no key either.
//
// Reads of a driver.Local, whose store is this process's memory, are not measured, nor are the
// touches that a driver.Slider makes with them: they take less time than reading the clock.
package slidingotel
