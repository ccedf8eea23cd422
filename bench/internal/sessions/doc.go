// Package sessions measures HTTP requests with a session: slidingttl's middleware
// beside scs and gorilla/sessions, each with the same handlers on a store in memory.
package sessions
