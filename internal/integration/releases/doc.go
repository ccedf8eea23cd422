// Package releases runs the program of a release before beside today's, on the same records of
// the same server, as a roll-out does. It runs at night (-tags night) and needs the history.
package releases
