// Package archive holds the archive to what reads it and keeps it: DuckDB, and servers
// that speak the protocol of S3.
package archive
