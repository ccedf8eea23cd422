package dynamodb

import (
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A life item that cannot be read is an error for each call that needs it, which names the attribute.
// None takes the record for dead by the expiry in its value's item, and none changes either item.
func TestLifeItemUnreadable(t *testing.T) {
	tbl := open[session](t, apartly())
	m, item := tbl.touchedForAnHour(t, "k", session{User: "ann"})
	life := tbl.lifeItemOf(t, "k")
	inMap := func(name string, av types.AttributeValue) attrs {
		x := maps.Clone(life[retainedName].(*types.AttributeValueMemberM).Value)
		if x[name] = av; av == nil {
			delete(x, name)
		}
		return attrs{retainedName: &types.AttributeValueMemberM{Value: x}}
	}
	null := &types.AttributeValueMemberNULL{Value: true}
	for name, change := range map[string]attrs{
		"a String for the Map":   {retainedName: text("1")},
		"no Map":                 {retainedName: nil},
		"NULL for the Map":       {retainedName: null},
		"created_at":             {"created_at": text("yesterday")},
		"created_at NULL":        {"created_at": null},
		"no created_at":          {"created_at": nil},
		"neither":                {"created_at": nil, retainedName: nil},
		"expiry":                 inMap(retainedAt, text("tomorrow")),
		"expiry NULL":            inMap(retainedAt, null),
		"no expiry":              inMap(retainedAt, nil),
		"held until":             inMap(retainedTTL, text("tomorrow")),
		"generation":             inMap(retainedGeneration, text("one")),
		"generation of zero":     inMap(retainedGeneration, number("0")),
		"no generation":          inMap(retainedGeneration, nil),
		"ended":                  inMap(lifeEnded, text("today")),
		"announced":              inMap(lifeAnnounced, text("today")),
		"doubt":                  {doubtName: text("none")},
		"doubt of another type":  {doubtName: null},
		"the time it is held to": {"ttl": text("tomorrow")},
	} {
		broken := maps.Clone(life)
		maps.Copy(broken, change)
		maps.DeleteFunc(broken, func(_ string, av types.AttributeValue) bool { return av == nil })
		restore := func(lives attrs) {
			t.Helper()
			tbl.put(t, "k", item)
			if _, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tbl.opts.LifeTable, Item: lives}); err != nil {
				t.Fatal(err)
			}
		}
		restore(broken)
		ctx, late := t.Context(), base.Add(30*time.Minute) // the value's own expiry has passed
		_, get := tbl.Get(ctx, "k")
		_, latest := tbl.Latest(ctx, "k")
		_, multi := tbl.GetMulti(ctx, []string{"k"})
		_, insert := tbl.Insert(ctx, "k", session{User: "eve"}, driver.Life{CreatedAt: late, ExpiresAt: late.Add(time.Hour)}, late)
		// As planned by a process that has read another life item, which passes none of the conditions.
		other := driver.Meta{Life: lasting(40 * time.Minute), Version: m.Version}
		_, touch := tbl.Touch(ctx, "k", other, lasting(2*time.Hour), late)
		_, replace := tbl.Replace(ctx, "k", session{User: "eve"}, other, lasting(2*time.Hour), late)
		_, upsert := tbl.Upsert(ctx, "k", session{User: "eve"}, nil, func(*driver.Meta) (driver.Life, error) { return lasting(2 * time.Hour), nil }, late)
		raw, err := tbl.Raw(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		dead, err := tbl.DeadIn(ctx, []Change{{Old: item, At: late.Time(), ByTTL: true}})
		if err != nil || len(dead) != 1 {
			t.Fatalf("%s: %+v, %v", name, dead, err)
		}
		for call, err := range map[string]error{
			"Get": get, "Latest": latest, "GetMulti": multi, "Insert": insert, "Touch": touch, "Replace": replace, "Upsert": upsert,
			"Remove": tbl.Remove(ctx, "k", other, late), "Raw": raw.Problem, "Scan": scanAll(t, tbl.Driver, 10)["k"].Problem, "DeadIn": dead[0].Problem,
		} {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: %s returns %v", name, call, err)
			}
		}
		if is := tbl.raw(t, "k"); !reflect.DeepEqual(is, item) {
			t.Errorf("%s: the value's item is now %v", name, is)
		}
		if is := tbl.lifeItemOf(t, "k"); !reflect.DeepEqual(is, broken) {
			t.Errorf("%s: the life item is now %v", name, is)
		}
		restore(life)
		tbl.wantMeta(t, name+", put right", "k", m)
	}
}
