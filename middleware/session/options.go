package session

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Options adjusts a Manager. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Policy is how long a session lives. Zero: 30 minutes idle, 12 hours in
	// all, with a slack of 3 minutes.
	Policy slidingttl.Policy

	// Remember is how long a session lives whose Login asks to be remembered.
	// Zero: 30 days idle, 90 days in all, with a slack of 1 day. Browsers keep a
	// cookie for at most 400 days. A MaxLifetime beyond that needs RenewEvery, which
	// gives the browser a new cookie in time: RenewEvery and IdleGrace together are
	// then at most 400 days. A session that need not outlive a browser, of a client
	// with a bearer token for instance, can have any Policy instead.
	Remember slidingttl.Policy

	// Cookie is the cookie's name, to which "__Host-" is added. Zero: "session".
	// Managers side by side need names that differ, and on one driver key
	// prefixes too.
	Cookie string

	// SameSite is the cookie's. Zero: Lax. Strict also keeps the session from
	// requests that follow a link of another site.
	SameSite http.SameSite

	// InsecureLocalhost makes cookies work over plain http on a developer's
	// machine: without Secure and "__Host-". A request is then refused with
	// ErrInsecure, through ErrorHandler, unless it comes from this machine, for a
	// localhost name, from a page of one if it says so (Origin), and without a
	// header that proxies add (Forwarded, X-Forwarded-*, X-Real-IP, Via). A proxy
	// on the same machine that adds none and renames the host cannot be told
	// from a browser.
	//
	// Over plain http for another host, such as a phone that opens a developer's machine,
	// no session works: give that host a certificate.
	InsecureLocalhost bool

	// KeepAlive counts every request with a session as an access, even if its handler never
	// asks for the session. So a user who is busy on such pages does not time out. It costs
	// those requests a read before the handler; if the read fails, the request continues.
	// To leave out assets, wrap only the pages, or name the assets in Passive.
	KeepAlive bool

	// Passive reports requests that must not keep a session alive: polling,
	// health checks. It is called when a handler first asks for the session.
	// Update, Login and Renew still count as accesses. Nil: none.
	Passive func(*http.Request) bool

	// RenewGrace is how long after Renew a request may arrive with the former
	// token. Zero: 10 s, or the idle grace of a policy that is shorter. A
	// millisecond is as good as none. Where several servers share a store it is
	// counted from the clock of the one that renewed, by the clock of the one that
	// asks: keep it longer than their clocks are apart.
	RenewGrace time.Duration

	// RenewEvery is the age at which a token is renewed, as by Renew, by the next request
	// that asks for the session. So a copied token is of little use even if sessions live
	// for months. A client that loses the answer with the new token must log in again. More
	// than RenewGrace. Zero: never.
	RenewEvery time.Duration

	// MaxRequest is the longest time that a request lasts. For that long a session that has
	// ended, and a token that was renewed, is remembered for requests that arrived before.
	// Such a request sees the session that its token belonged to, or cannot write; it never
	// begins another session. At most both policies' MaxLifetime. Zero: 1 h, or that bound.
	MaxRequest time.Duration

	// MaxData bounds the encoded data of a session, in bytes: an Update beyond
	// it fails with an error that matches slidingttl.ErrInvalid. Zero: 16 KiB.
	MaxData int

	// MaxPerUser bounds the sessions of a user: a Login beyond it ends the one
	// that was begun first. They are listed in one record, some 80 bytes each.
	// Zero: 32. At most 1,000.
	MaxPerUser int

	// KeyPrefix begins every key in the store. Zero: none.
	KeyPrefix string

	// Touches says whether a request waits for a due touch. See
	// [slidingttl.TouchMode].
	Touches slidingttl.TouchMode

	// Anonymous treats a visitor whose session cannot be read, because the store
	// fails, as one without a session; the failure goes to OnError. By default
	// the request is answered by ErrorHandler.
	Anonymous bool

	// ErrorHandler answers a request in place of its handler, when its session
	// could not be read or ErrInsecure refuses it. Nil: 503 Service Unavailable
	// without details, which go to Logger.
	ErrorHandler func(w http.ResponseWriter, r *http.Request, err error)

	// OnCreated is called for a session that began, anonymous or by a Login. Nil: not
	// called. This and the hooks below run in the request, or the call, that made the
	// change, and may call the manager.
	OnCreated func(ctx context.Context, s Info)

	// OnRenewed is called for a session that got a new token. Nil: not called.
	OnRenewed func(ctx context.Context, s Info)

	// OnEnded is called for a session that was ended, with the reason. It is not called for
	// sessions that die of a timeout: the store removes them. One that is ended up to a minute after
	// it died may still live on a server whose clock is behind, and counts as ended. Nil: not called.
	OnEnded func(ctx context.Context, s Info, why Reason)

	// OnReplay is called for a request with a token that its session no longer has. To end
	// the session, call Revoke. Nil: not called.
	OnReplay func(ctx context.Context, s Info)

	// OnError is called for failures after which the request continues: a touch, a
	// clean-up, data that does not decode, a read with Anonymous. It may run on another
	// goroutine. Nil: Logger gets them.
	OnError func(ctx context.Context, err error)

	// Logger gets the failures for which you set no handler or hook, at most one in ten
	// seconds of those that end a request, and of those that do not. It gets no key and no token. Nil: slog.Default().
	Logger *slog.Logger

	// Now is the time. Nil: the driver's clock if it has one, else time.Now.
	Now func() time.Time
}

const (
	defaultRenewGrace = 10 * time.Second
	defaultMaxRequest = time.Hour
	defaultMaxData    = 16 << 10
	defaultMaxPerUser = 32
	defaultCookie     = "session"

	mostPerUser = 1000
	maxLabel    = 200 // bytes
)

var (
	defaultPolicy   = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}
	defaultRemember = slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour, Slack: 24 * time.Hour}
)

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	invalid := func(field string, value any, rule string) (Options, error) {
		return o, &slidingttl.InvalidError{Field: "Options." + field, Value: fmt.Sprint(value), Rule: rule}
	}
	if o.Policy == (slidingttl.Policy{}) {
		o.Policy = defaultPolicy
	}
	if o.Remember == (slidingttl.Policy{}) {
		o.Remember = defaultRemember
	}
	if o.Cookie == "" {
		o.Cookie = defaultCookie
	}
	if o.SameSite == 0 {
		o.SameSite = http.SameSiteLaxMode
	}
	if o.MaxData == 0 {
		o.MaxData = defaultMaxData
	}
	if o.MaxPerUser == 0 {
		o.MaxPerUser = defaultMaxPerUser
	}
	if err := o.Policy.Validate(); err != nil {
		return o, fmt.Errorf("Options.Policy: %w", err)
	}
	if err := o.Remember.Validate(); err != nil {
		return o, fmt.Errorf("Options.Remember: %w", err)
	}
	if o.RenewGrace == 0 {
		o.RenewGrace = min(defaultRenewGrace, o.Policy.IdleGrace, o.Remember.IdleGrace)
	}
	most := min(o.Policy.MaxLifetime, o.Remember.MaxLifetime)
	if o.MaxRequest == 0 {
		o.MaxRequest = min(defaultMaxRequest, most)
	}
	switch {
	case strings.HasPrefix(o.Cookie, "__"):
		return invalid("Cookie", o.Cookie, "must not have a prefix: the middleware adds it")
	case (&http.Cookie{Name: o.Cookie}).Valid() != nil:
		return invalid("Cookie", fmt.Sprintf("%q", o.Cookie), "must be a cookie name")
	case o.SameSite < http.SameSiteDefaultMode || o.SameSite > http.SameSiteNoneMode:
		return invalid("SameSite", int(o.SameSite), "must be one of net/http's modes")
	case o.SameSite == http.SameSiteNoneMode && o.InsecureLocalhost:
		return invalid("SameSite", "None", "must not be None with InsecureLocalhost: browsers want Secure with it")
	case o.RenewGrace < time.Millisecond:
		return invalid("RenewGrace", o.RenewGrace, "must be at least 1ms, or zero")
	case o.RenewGrace > o.Policy.IdleGrace || o.RenewGrace > o.Remember.IdleGrace:
		return invalid("RenewGrace", o.RenewGrace, "must be at most the idle grace of both policies")
	case o.RenewGrace%time.Millisecond != 0:
		return invalid("RenewGrace", o.RenewGrace, "must be a whole number of milliseconds")
	case o.RenewEvery != 0 && o.RenewEvery <= o.RenewGrace:
		return invalid("RenewEvery", o.RenewEvery, "must be more than Options.RenewGrace, or zero")
	case o.Remember.MaxLifetime > maxAge && o.Remember.IdleGrace >= maxAge:
		return invalid("Remember.IdleGrace", o.Remember.IdleGrace, "must be less than the 400 days for which browsers keep a cookie, because MaxLifetime is more")
	case o.Remember.MaxLifetime > maxAge && (o.RenewEvery == 0 || o.RenewEvery > maxAge-o.Remember.IdleGrace):
		return invalid("RenewEvery", o.RenewEvery, fmt.Sprintf("must be set, and at most %v, because Options.Remember.MaxLifetime exceeds the 400 days for which browsers keep a cookie", maxAge-o.Remember.IdleGrace))
	case o.MaxRequest < time.Millisecond || o.MaxRequest > most:
		return invalid("MaxRequest", o.MaxRequest, "must be at least 1ms, and at most the MaxLifetime of both policies")
	case o.MaxRequest%time.Millisecond != 0:
		return invalid("MaxRequest", o.MaxRequest, "must be a whole number of milliseconds")
	case o.MaxData < 0:
		return invalid("MaxData", o.MaxData, "must not be negative")
	case o.MaxPerUser < 0 || o.MaxPerUser > mostPerUser:
		return invalid("MaxPerUser", o.MaxPerUser, fmt.Sprintf("must be 0 to %d", mostPerUser))
	}
	return o, nil
}
