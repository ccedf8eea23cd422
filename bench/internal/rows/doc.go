// Package rows measures touches of a PostgreSQL table, and what a sweep costs concurrent
// readers.
package rows
