package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// userSessions is the live sessions of a user, and whether they were ended.
type userSessions struct {
	Revoked  bool          `json:"revoked"`
	Sessions []userSession `json:"sessions"`
}

type userSession struct {
	ID        string    `json:"id"`
	Label     string    `json:"label,omitempty"`
	Remember  bool      `json:"remember,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// String is the sessions as text, of several lines.
func (u *userSessions) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sessions", len(u.Sessions))
	if u.Revoked {
		b.WriteString(", which have ended now")
	}
	for _, s := range u.Sessions {
		fmt.Fprintf(&b, "\n  %s  since %s, until %s unless it is used", s.ID, clock(&s.CreatedAt), clock(&s.ExpiresAt))
		if s.Remember {
			b.WriteString(", remembered")
		}
		if s.Label != "" {
			fmt.Fprintf(&b, ", %q", s.Label)
		}
	}
	return b.String()
}

func (a *app) sessions() *cobra.Command {
	var p paceFlags
	var user, prefix string
	var except []string
	c := &cobra.Command{
		Use:   "sessions STORE list|revoke",
		Short: "List the sessions of a user that middleware/session keeps, or end them",
		Long: `Lists the sessions of a user that middleware/session keeps in the store, or ends them, as its List and
RevokeAll do. It asks for no policy: a session is listed until its stored expiry, also where a tightened
policy has ended it before.

A session that was ended is refused by every server at its next request. The hooks of the service, such
as OnEnded, are not called.`,
		Example: `  slidingttl sessions "redis://cache1?prefix=session:" revoke --user 42 --apply`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case user == "":
				return fmt.Errorf("%w: --user is empty", errUsage)
			case args[1] != "revoke" && (args[1] != "list" || p.apply):
				return fmt.Errorf("%w: %q after the store must be list, without --apply, or revoke", errUsage, args[1])
			}
			s, _, err := a.openChecked(c.Context(), &p, args[0], 0)
			if err != nil {
				return err
			}
			defer s.close()
			if err := a.agreed(c.Context(), &p, fmt.Sprintf("About to END the sessions of user %q in %s.", user, args[0])); err != nil {
				return err
			}
			return a.ofUser(c.Context(), s, user, prefix, except, p.apply)
		},
	}
	p.target.flags(c)
	p.applies(c)
	f := c.Flags()
	f.StringVar(&user, "user", "", "the user, as given to Login")
	f.StringVar(&prefix, "key-prefix", "", "the KeyPrefix of the service's session.Options")
	f.StringSliceVar(&except, "except", nil, "sessions to leave, by ID")
	_ = c.MarkFlagRequired("user")
	return c
}

// ofUser prints the sessions of user but except, and ends them if revoke is set.
func (a *app) ofUser(ctx context.Context, s *store, user, prefix string, except []string, revoke bool) error {
	d, err := s.sessions()
	if err != nil {
		return err
	}
	// No policy is tighter than this one, so that no session is left out. It must not write: by it the
	// index of a user would live for ever. What it says of the time that a session was last seen is unknown.
	every := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: slidingttl.NoCap}
	reader, err := session.New[any](d, &session.Options{KeyPrefix: prefix, Policy: every, Remember: every, RenewEvery: time.Hour})
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close(ctx) }()
	list, failed := reader.List(ctx, user)
	for _, id := range except {
		if failed == nil && !slices.ContainsFunc(list, func(i session.Info) bool { return i.ID == id }) {
			return fmt.Errorf("%w: --except %s is no session of this user", errUsage, id)
		}
	}
	if failed == nil && revoke {
		m, err := session.New[any](d, &session.Options{KeyPrefix: prefix})
		if err != nil {
			return err
		}
		defer func() { _ = m.Close(ctx) }()
		if failed = m.RevokeAll(ctx, user, except...); failed != nil {
			failed = fmt.Errorf("some may have ended; the same command ends the others: %w", failed)
		}
	}
	u := userSessions{Revoked: revoke && failed == nil, Sessions: []userSession{}}
	for _, i := range list {
		if slices.Contains(except, i.ID) {
			continue
		}
		u.Sessions = append(u.Sessions, userSession{i.ID, i.Label, i.Remember, i.CreatedAt, i.IdleExpiry})
	}
	if err := a.print(&u); err != nil {
		return err
	}
	return failed
}
