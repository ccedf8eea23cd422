package compare

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
)

// scsManager has an idle timeout of 30 minutes and a lifetime of 12 hours.
func scsManager() *scs.SessionManager {
	m := scs.New()
	m.Store = memstore.NewWithCleanupInterval(0)
	m.IdleTimeout, m.Lifetime = 30*time.Minute, 12*time.Hour
	return m
}

// load is the beginning of a request with a token, and commit is its end.
func load(t *testing.T, m *scs.SessionManager, token string) context.Context {
	t.Helper()
	ctx, err := m.Load(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func commit(t *testing.T, m *scs.SessionManager, ctx context.Context) string {
	t.Helper()
	token, _, err := m.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// begun is the token of a session of user 42.
func begun(t *testing.T, m *scs.SessionManager) string {
	t.Helper()
	ctx := load(t, m, "")
	m.Put(ctx, "user", 42)
	return commit(t, m, ctx)
}

// countingStore counts the writes to a store, and fails them while it is down.
type countingStore struct {
	scs.Store
	writes int
	down   bool
}

func (s *countingStore) Commit(token string, b []byte, expiry time.Time) error {
	s.writes++
	if s.down {
		return errors.New("the store takes no writes")
	}
	return s.Store.Commit(token, b, expiry)
}

// Ten requests that only read the session write it ten times.
func TestScsWritesAtEachRead(t *testing.T) {
	m := scsManager()
	store := &countingStore{Store: m.Store}
	m.Store = store
	token := begun(t, m)
	store.writes = 0
	h := m.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.GetInt(r.Context(), "user") }))
	for range 10 {
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: "session", Value: token})
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if store.writes != 10 {
		t.Errorf("10 reads made %d writes", store.writes)
	}
}

// A slow request that began before the logout saves the session again.
func TestScsLogoutIsUndone(t *testing.T) {
	m := scsManager()
	token := begun(t, m)
	slow := load(t, m, token)
	m.Put(slow, "seen", true)
	if err := m.Destroy(load(t, m, token)); err != nil {
		t.Fatal(err)
	}
	commit(t, m, slow)
	if user := m.GetInt(load(t, m, token), "user"); user != 42 {
		t.Errorf("after the logout the token opens the session of user %d", user)
	}
}

// Of two requests that change different values, the later one undoes the other's change.
func TestScsLosesAnUpdate(t *testing.T) {
	m := scsManager()
	token := begun(t, m)
	first, second := load(t, m, token), load(t, m, token)
	m.Put(first, "cart", "a book")
	m.Put(second, "language", "en")
	commit(t, m, first)
	commit(t, m, second)
	if cart := m.GetString(load(t, m, token), "cart"); cart != "" {
		t.Errorf("the cart has %q", cart)
	}
}

// A session whose token is renewed every hour lives for a day, twice its lifetime.
func TestScsRenewalRestartsTheLifetime(t *testing.T) {
	m := scsManager()
	synctest.Test(t, func(t *testing.T) {
		token := begun(t, m)
		for began := time.Now(); time.Since(began) < 24*time.Hour; {
			time.Sleep(20 * time.Minute)
			ctx := load(t, m, token)
			if err := m.RenewToken(ctx); err != nil {
				t.Fatal(err)
			}
			token = commit(t, m, ctx)
		}
		if user := m.GetInt(load(t, m, token), "user"); user != 42 {
			t.Errorf("after a day it is the session of user %d", user)
		}
	})
}

// A session that timed out, one past its lifetime and one that never was look alike: new and empty.
func TestScsDeathsLookAlike(t *testing.T) {
	m := scsManager()
	synctest.Test(t, func(t *testing.T) {
		idle := begun(t, m)
		time.Sleep(time.Hour)
		aged := begun(t, m)
		for range 40 {
			time.Sleep(20 * time.Minute)
			commit(t, m, load(t, m, aged))
		}
		for _, token := range []string{idle, aged, "never given"} {
			ctx, err := m.Load(t.Context(), token)
			if err != nil || len(m.Keys(ctx)) != 0 || m.Token(ctx) != "" {
				t.Errorf("%s: %v, %v, %q", token, err, m.Keys(ctx), m.Token(ctx))
			}
		}
	})
}

// A store that can be read and not written answers a page that only reads with 500.
func TestScsReadFailsWithItsTouch(t *testing.T) {
	m := scsManager()
	store := &countingStore{Store: m.Store}
	m.Store = store
	token := begun(t, m)
	store.down = true
	m.ErrorFunc = func(w http.ResponseWriter, _ *http.Request, err error) { http.Error(w, err.Error(), 500) }
	h := m.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.GetInt(r.Context(), "user") == 42 {
			_, _ = w.Write([]byte("your page"))
		}
	}))
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	r.AddCookie(&http.Cookie{Name: "session", Value: token})
	h.ServeHTTP(w, r)
	if w.Code != 500 {
		t.Errorf("the page is answered with %d", w.Code)
	}
}

// SetDeadline gives one session a later cap; its idle time stays the manager's.
func TestScsHasOneIdleTime(t *testing.T) {
	m := scsManager()
	synctest.Test(t, func(t *testing.T) {
		ctx := load(t, m, "")
		m.Put(ctx, "user", 42)
		m.SetDeadline(ctx, time.Now().Add(30*24*time.Hour))
		token := commit(t, m, ctx)
		time.Sleep(31 * time.Minute)
		if user := m.GetInt(load(t, m, token), "user"); user != 0 {
			t.Errorf("idle for 31 minutes, it is the session of user %d", user)
		}
	})
}

// A session that began with a lifetime of 12 hours keeps it after the next release has one hour.
func TestScsKeepsTheOldLifetime(t *testing.T) {
	m := scsManager()
	next := scsManager()
	next.Store, next.Lifetime = m.Store, time.Hour
	synctest.Test(t, func(t *testing.T) {
		token := begun(t, m)
		for began := time.Now(); time.Since(began) < 11*time.Hour; {
			time.Sleep(20 * time.Minute)
			commit(t, next, load(t, next, token))
		}
		if user := next.GetInt(load(t, next, token), "user"); user != 42 {
			t.Errorf("after 11 hours it is the session of user %d", user)
		}
	})
}
