// Package anyvalue judges drivers by what they read back. A case is a type of values, a record of another
// program or none, and writes of values of different kinds after each other, by two processes. What a write has
// accepted must be what every read returns, or it must have been refused by name: by New, or by the write.
//
// Types are made at run time. [Any] holds a value of the type of the current case, so that one driver.Driver[Any]
// serves all of them. Therefore a process judges one case at a time.
package anyvalue
