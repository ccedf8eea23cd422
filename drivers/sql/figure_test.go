package sql

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// BenchmarkFigureReads compares the driver's reads with a program's own statements.
func BenchmarkFigureReads(b *testing.B) {
	for name, s := range databases {
		b.Run(name, func(b *testing.B) {
			db := sqltest.DB(b, s.server)
			d := open[session](b, db, s.dialect, nil)
			for i := range 100 {
				d.mustInsert(b, fmt.Sprint(i), session{"ann"}, lasting(time.Hour))
			}
			read := d.dialect.bind("SELECT created_at, expires_at, version, value FROM " + d.quoted() + " WHERE id = ?")
			update := d.dialect.bind("UPDATE " + d.quoted() + " SET expires_at = ? WHERE id = ?")
			bare := func(ctx context.Context, key string) error {
				var created, expires, version stdsql.NullInt64
				var text []byte
				if err := db.QueryRowContext(ctx, read, key).Scan(&created, &expires, &version, &text); err != nil {
					return err
				}
				return json.Unmarshal(text, new(session))
			}
			n := driver.Instant(0)
			for _, way := range []struct {
				name string
				read func(ctx context.Context, key string) error
			}{
				{"bare", bare},
				{"Get", func(ctx context.Context, key string) error { _, err := d.Get(ctx, key); return err }},
				{"naive", func(ctx context.Context, key string) error {
					if err := bare(ctx, key); err != nil {
						return err
					}
					n++
					_, err := db.ExecContext(ctx, update, int64(base.Add(time.Hour)+n), key)
					return err
				}},
				{"ReadTouch", func(ctx context.Context, key string) error {
					n++
					a := driver.Access{At: base.Add(2*time.Hour) + n, Keep: 3600e3, Stored: 3600e3, Most: driver.MaxInstant, Step: time.Millisecond}
					_, touched, err := d.ReadTouch(ctx, key, nil, a, base)
					if !touched && err == nil && s.dialect != MySQL {
						b.Fatal("not touched")
					}
					return err
				}},
			} {
				for _, bound := range []bool{false, true} {
					b.Run(fmt.Sprintf("%s/deadline=%v", way.name, bound), func(b *testing.B) {
						ctx := context.Background()
						if bound {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Hour)
							defer cancel()
						}
						i := 0
						for b.Loop() {
							if err := way.read(ctx, fmt.Sprint(i%100)); err != nil {
								b.Fatal(err)
							}
							i++
						}
					})
				}
			}
		})
	}
}
