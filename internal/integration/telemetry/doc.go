// Package telemetry has no code but tests, for what takes more than one of the
// modules of telemetry, or a server: the driver wrapper over a real wire, the names of
// one exporter against those of the other, and the alert rules and the dashboard
// against what is exported. They need promtool.
package telemetry
