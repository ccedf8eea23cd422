package follow

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	onRedis    = "Redis"
	onPostgres = "PostgreSQL, fsync"
)

// wired does t on a server of its own, in real time. A live call is a write there.
func wired(t task) (runner.Sample, error) {
	switch t.Server {
	case onRedis:
		return wiredRedis(t)
	case onPostgres:
		return wiredPostgres(t)
	}
	return simulate(t)
}

func wiredRedis(t task) (runner.Sample, error) {
	ctx := context.Background()
	server, err := redistest.Run(ctx)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	value := fmt.Sprintf(`{"Note":%q}`, strings.Repeat("x", 160))
	for from := 0; from < t.Keys; from += 1000 {
		var sets rueidis.Commands
		for i := range 1000 {
			sets = append(sets, client.B().Set().Key(strconv.Itoa(from+i)).Value(value).Build())
		}
		for _, r := range client.DoMulti(ctx, sets...) {
			if r.Error() != nil {
				return nil, r.Error()
			}
		}
	}
	d, err := redis.New[note](client, nil)
	if err != nil {
		return nil, err
	}
	return beside(t, store{d, inserts(d)})
}

func wiredPostgres(t task) (runner.Sample, error) {
	ctx := context.Background()
	server, err := sqltest.RunDurable(ctx, sqltest.PostgreSQL)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	db, err := stdsql.Open("pgx", server.DSN)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	d, err := sql.New[note](db, sql.PostgreSQL, "notes", nil)
	if err == nil {
		err = d.EnsureTable(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `INSERT INTO notes (id, value)
			SELECT i, jsonb_build_object('Note', lpad(i::text, 160, '0')) FROM generate_series(1, $1) i`, t.Keys)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "VACUUM ANALYZE notes")
	}
	if err != nil {
		return nil, err
	}
	return beside(t, store{d, inserts(d)})
}

// note is a record of a usual size.
type note struct{ Note string }

// inserts returns a function that inserts a record of its own at each call.
func inserts(d driver.Driver[note]) func(context.Context) error {
	var n atomic.Int64
	return func(ctx context.Context) error {
		now := driver.Floor(time.Now())
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
		_, err := d.Insert(ctx, fmt.Sprint("live-", n.Add(1)), note{strings.Repeat("x", 160)}, life, now)
		return err
	}
}
