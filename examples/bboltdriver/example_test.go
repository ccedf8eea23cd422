package bboltdriver

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// A store over the driver: one record is read and lives on, the other dies and is reaped.
func Example() {
	dir, err := os.MkdirTemp("", "bbolt")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := bolt.Open(filepath.Join(dir, "sessions"), 0o600, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	now := time.Now()
	d, err := New[string](db, Options{Bucket: "sessions", Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	policy := slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}
	store, err := slidingttl.New(d, policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, key := range []string{"read", "left"} {
		if err := store.Upsert(ctx, key, "a session"); err != nil {
			log.Fatal(err)
		}
	}
	for range 10 {
		now = now.Add(20 * time.Minute)
		if _, err := store.Get(ctx, "read"); err != nil {
			log.Fatal(err)
		}
	}
	_, err = store.Get(ctx, "left")
	fmt.Println(err)

	report, err := upkeep.Reap(ctx, d, policy, &upkeep.ReapOptions{
		WriteOptions: upkeep.WriteOptions{Apply: true},
		Expired:      true, // bbolt removes nothing by itself
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reaped", report.Counts["expired"], "and left", report.Counts["alive"])
	// Output:
	// slidingttl: get: not found
	// reaped 1 and left 1
}
