package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record counts as read by GetMulti only when both its items were: one without its life item might seem
// to live that was retired.
func TestLifeTableGetMultiCutShort(t *testing.T) {
	held, life := base.Add(24*time.Hour), lasting(time.Hour)
	version := driver.Version(1<<generationShift | 1)
	beside := func(at driver.Instant) map[string]any {
		return toJSON(attrs{"x": apartMap(at, held, 1)})["x"].(map[string]any)
	}
	item := func(key string, at, ttl driver.Instant) map[string]any {
		all := toJSON(attrs{
			"pk": text(key), "user": text(key), "ttl": seconds(ttl), versionName: versionOf(version),
			"created_at": text(base.Time().Format(time.RFC3339)),
		})
		all[retainedName] = beside(at)
		return all
	}
	items := map[string]func(key string) map[string]any{
		"t":     func(key string) map[string]any { return item(key, life.ExpiresAt, held) },
		"lives": func(key string) map[string]any { return item(key, base.Add(time.Minute), held.Add(lifeLasts)) },
	}
	for name, c := range map[string]struct {
		throttled string
		then      func(req *request, cancel func()) *response // what answers the second call, nil: as the first
		want      error
	}{
		"the life table is throttled":               {"lives", nil, ErrUnprocessed},
		"the values' table is throttled":            {"t", nil, ErrUnprocessed},
		"the caller leaves":                         {"lives", func(_ *request, cancel func()) *response { cancel(); return nil }, context.Canceled},
		"the life table's rights are taken":         {"lives", func(req *request, _ func()) *response { return failure(req, 400, "AccessDeniedException") }, driver.ErrRefused},
		"the life table is throttled for the batch": {"lives", func(req *request, _ func()) *response { return failure(req, 400, "ThrottlingException") }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calls := 0
			d := faked(t, &Options{LifeTable: "lives", Hold: 24 * time.Hour}, func(_ string, req *request, _ sender) (*response, error) {
				if calls++; calls > 1 && c.then != nil {
					if resp := c.then(req, cancel); resp != nil {
						return resp, nil
					}
				}
				var asked struct {
					RequestItems map[string]struct {
						Keys []struct{ PK struct{ S string } }
					}
				}
				if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
					return nil, err
				}
				got, left := map[string][]any{}, map[string]any{}
				for table, of := range asked.RequestItems {
					for _, k := range of.Keys {
						if table == c.throttled && k.PK.S == "cut" {
							left[table] = map[string]any{"Keys": []any{toJSON(attrs{"pk": text("cut")})}}
						} else {
							got[table] = append(got[table], items[table](k.PK.S))
						}
					}
				}
				out, err := json.Marshal(map[string]any{"Responses": got, "UnprocessedKeys": left})
				return answer(req, http.StatusOK, string(out)), err
			})
			found, err := d.GetMulti(ctx, []string{"whole", "cut"})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: error %v", name, err)
			}
			if e, ok := found["whole"]; !ok || len(found) != 1 || e.ExpiresAt != base.Add(time.Minute) {
				t.Errorf("%s: found %+v; want the one that was read", name, found)
			}
		})
	}
}
