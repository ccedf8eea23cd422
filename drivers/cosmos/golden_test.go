package cosmos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/internal/golden"
)

// TestGolden writes items at the _ts that they had, from which their ttl counts.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden.Run(t, func(t *testing.T, layout string, retain time.Duration) golden.Store {
		opts := configurations[layout]
		opts.MaxSkew, opts.Retain = 0, retain
		account := cosmostest.Start(t)
		f := openOn[golden.Value](t, account, &opts)
		return golden.Store{
			Driver: f.Driver,
			Now:    account.Now,
			Plant: func(raw json.RawMessage) error {
				var item struct {
					ID string `json:"id"`
					TS int64  `json:"_ts"`
				}
				if err := json.Unmarshal(raw, &item); err != nil {
					return err
				}
				now := time.Now()
				account.SetTime(time.Unix(item.TS, 0))
				f.put(t, strings.TrimPrefix(item.ID, "session:"), string(raw))
				account.SetTime(now)
				return nil
			},
		}
	})
}
