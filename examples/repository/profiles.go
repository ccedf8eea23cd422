package main

import (
	"context"
	"errors"
	"time"

	"github.com/couchbase/gocb/v2"
)

// profile is a document that this team has kept for years, created_at included.
type profile struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

var errNoProfile = errors.New("no such profile")

// profiles is the team's own repository, with gocb calls of its own. It sets no
// expiry, and stays as it is.
type profiles struct{ collection *gocb.Collection }

// Get returns the profile of id.
func (p profiles) Get(ctx context.Context, id string) (profile, error) {
	var v profile
	res, err := p.collection.Get(profileKey(id), &gocb.GetOptions{Context: ctx})
	switch {
	case errors.Is(err, gocb.ErrDocumentNotFound):
		return v, errNoProfile
	case err != nil:
		return v, err
	}
	return v, res.Content(&v)
}

// Upsert writes the profile of id.
func (p profiles) Upsert(ctx context.Context, id string, v profile) error {
	_, err := p.collection.Upsert(profileKey(id), v, &gocb.UpsertOptions{Context: ctx})
	return err
}

func profileKey(id string) string { return "profile::" + id }
