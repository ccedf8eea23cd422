// Package survey visits all records of a store and writes nothing. Audit reports what state they are in,
// Dying which of them die soon, and Diff what a change of policy would do to them.
//
// They are walks of package upkeep: see there what they share. Dying cannot be resumed.
package survey
