// Package rows measures what becomes of a table of PostgreSQL under touches, and what a
// sweep of it costs the readers beside it.
package rows
