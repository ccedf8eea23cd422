package cosmos

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is what most tests store.
type session struct {
	User string `json:"user"`
	Note string `json:"note,omitempty"`
}

// fixture is a driver on a container of its own.
type fixture[T any] struct {
	*Driver[T]
	account   *cosmostest.Account
	container *azcosmos.ContainerClient // the plain client
}

// open makes a container as opts asks for.
func open[T any](t testing.TB, opts *Options, client ...func(*azcosmos.ClientOptions)) *fixture[T] {
	t.Helper()
	return openOn[T](t, cosmostest.Start(t), opts, client...)
}

func openOn[T any](t testing.TB, account *cosmostest.Account, opts *Options, client ...func(*azcosmos.ClientOptions)) *fixture[T] {
	t.Helper()
	account.SetTime(base.Time())
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Retry = atOnce
	opts = &o
	shape, err := New[T](&azcosmos.ContainerClient{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	container := account.Container(t, shape.Properties(""), append([]func(*azcosmos.ClientOptions){impatient}, client...)...)
	d, err := New[T](container, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture[T]{d, account, container}
}

// another returns a driver over the same container, as in another process.
func (f *fixture[T]) another(t testing.TB) *Driver[T] {
	t.Helper()
	d, err := New[T](f.container, &f.opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// atOnce makes azcore resend throttled requests at once, and impatient does so for reads.
var atOnce = policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Millisecond, MaxRetryDelay: 2 * time.Millisecond}

func impatient(o *azcosmos.ClientOptions) { o.Retry = atOnce }

// put writes an item as another program would.
func (f *fixture[T]) put(t testing.TB, key, body string) {
	t.Helper()
	k, err := f.identity(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.container.UpsertItem(t.Context(), f.partitionKey(k), []byte(body), nil); err != nil {
		t.Fatal(err)
	}
}

// raw returns the stored item, "" if there is none.
func (f *fixture[T]) raw(t testing.TB, key string) string {
	t.Helper()
	k, err := f.identity(key)
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.container.ReadItem(f.withKey(t.Context(), k), f.partitionKey(k), k.id, nil)
	if status(err) == http.StatusNotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Value)
}

func (f *fixture[T]) mustInsert(t testing.TB, key string, v T, life driver.Life, now driver.Instant) driver.Meta {
	t.Helper()
	version, err := f.Insert(t.Context(), key, v, life, now)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Meta{Life: life, Version: version}
}

func (f *fixture[T]) mustGet(t testing.TB, key string) driver.Entry[T] {
	t.Helper()
	e, err := f.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// during returns the requests that the account receives while f runs.
func (f *fixture[T]) during(do func()) cosmostest.Counts {
	before := f.account.Counts()
	do()
	return f.account.Counts().Since(before)
}

func (f *fixture[T]) inject(t testing.TB, fault cosmostest.Fault) {
	t.Helper()
	if err := f.account.Inject(fault); err != nil {
		t.Fatal(err)
	}
}

// base is a whole second, at which the account's clock stands.
var base = driver.Floor(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// lasting is the life of a record created at base that expires after ttl.
func lasting(ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: base, ExpiresAt: base.Add(ttl)}
}

func wantNotFound(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrNotFound) {
		t.Fatalf("%s: error %v, want ErrNotFound", what, err)
	}
}

func wantConflict(t testing.TB, what string, err error, found driver.Meta) {
	t.Helper()
	var conflict *driver.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("%s: error %v, want a ConflictError", what, err)
	}
	if conflict.Found != found {
		t.Fatalf("%s: conflict with %+v, want %+v", what, conflict.Found, found)
	}
	var answer *azcore.ResponseError
	if conflict.Err != nil && !errors.As(err, &answer) {
		t.Errorf("%s: the client's error is out of reach", what)
	}
}

func wantInvalid(t testing.TB, what string, err error, field string, mentions ...string) {
	t.Helper()
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("%s: error %v, want an InvalidError", what, err)
	}
	if invalid.Field != field {
		t.Errorf("%s: field %q, want %q", what, invalid.Field, field)
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%s: error %q does not mention %q", what, err, m)
		}
	}
}

// firstField is the field of the first *driver.InvalidError in err.
func firstField(err error) string {
	var invalid *driver.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field
	}
	return ""
}

// makeContainer makes a container as opts asks for, in a database that may exist.
func makeContainer(t testing.TB, client *azcosmos.Client, id string, opts *Options) *azcosmos.ContainerClient {
	t.Helper()
	const database = "slidingttl"
	if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: database}, nil); err != nil && status(err) != http.StatusConflict {
		t.Fatal(err)
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := New[session](&azcosmos.ContainerClient{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(t.Context(), shape.Properties(id), nil); err != nil && status(err) != http.StatusConflict {
		t.Fatal(err)
	}
	container, err := db.NewContainer(id)
	if err != nil {
		t.Fatal(err)
	}
	return container
}
