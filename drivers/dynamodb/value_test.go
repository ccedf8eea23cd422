package dynamodb

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// everything maps what the driver writes, but for the version.
type everything struct {
	ID        string    `dynamodbav:"pk"`
	User      string    `dynamodbav:"user"`
	CreatedAt time.Time `dynamodbav:"created_at"`
	TTL       int64     `dynamodbav:"ttl"`
}

func TestValueThatMapsTheDriversAttributes(t *testing.T) {
	tbl := open[everything](t, nil)
	life := driver.Life{CreatedAt: base + 120, ExpiresAt: base.Add(time.Minute)}
	wrong := everything{ID: "other", User: "one", CreatedAt: time.Unix(1, 0), TTL: 1}
	m := tbl.mustInsert(t, "k", wrong, life, base)
	want := everything{ID: "k", User: "one", CreatedAt: life.CreatedAt.Time(), TTL: int64(life.ExpiresAt) / 1000}
	if e := tbl.mustGet(t, "k"); e.Value != want || e.Meta != m {
		t.Errorf("read %+v, want %+v", e, want)
	}
	if tbl.raw(t, "other") != nil {
		t.Error("the value's own key was written")
	}

	// What the driver does not write, the value does not either.
	forever := tbl.mustInsert(t, "forever", wrong, driver.Life{}, base)
	if e := tbl.mustGet(t, "forever"); e.Meta != forever || e.Value.TTL != 0 || !e.Value.CreatedAt.IsZero() {
		t.Errorf("read %+v, want no life", e)
	}
}

// A map of attributes is kept as it is. What attributevalue panics at is an error.
func TestValuesOfAttributes(t *testing.T) {
	tbl := open[attrs](t, nil)
	v := attrs{"user": text("one"), "n": &types.AttributeValueMemberN{Value: "1.5"}}
	m := tbl.mustInsert(t, "k", v, lasting(time.Hour), base)
	if len(v) != 2 {
		t.Errorf("Insert has changed the value: %v", v)
	}
	e := tbl.mustGet(t, "k")
	if e.Meta != m || !reflect.DeepEqual(e.Value["user"], v["user"]) || !reflect.DeepEqual(e.Value["n"], v["n"]) {
		t.Errorf("read %+v, want %+v", e, v)
	}
	e.Value["user"] = text("two") // with all that the driver wrote in it
	if _, err := tbl.Replace(t.Context(), "k", e.Value, m, lasting(2*time.Hour), base); err != nil {
		t.Fatal(err)
	}
	if e := tbl.mustGet(t, "k"); e.Life != lasting(2*time.Hour) || !reflect.DeepEqual(e.Value["user"], text("two")) {
		t.Errorf("after a replacement read %+v", e)
	}

	type named map[string]types.AttributeValue
	_, err := newDriver[named](struct{ api }{}, "t", nil)
	wantInvalid(t, "a named map of attributes", err, "T", "dynamodb.named")
	_, err = newDriver[struct{ M map[string]sealed }](struct{ api }{}, "t", nil)
	wantInvalid(t, "a map of what only its pointer encodes", err, "T", "dynamodb.sealed by pointer")
	type field struct {
		User types.AttributeValue `dynamodbav:"user"`
	}
	d, err := New[field](tbl.client, tbl.Driver.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Get(t.Context(), "k")
	wantInvalid(t, "a field of an attribute", err, `attribute "user"`)
}

// TestReservedAttributes is about fields that the driver's attributes would not get on with.
func TestReservedAttributes(t *testing.T) {
	client := &dynamodb.Client{}
	refused := func(name, attribute string, err error) {
		t.Helper()
		wantInvalid(t, name, err, `attribute "`+attribute+`"`, "rename")
	}
	old := &Options{Version: "version"}
	_, err := New[struct {
		Version int32 `dynamodbav:"version"`
	}](client, "t", old)
	refused("a version that would overflow", "version", err)
	_, err = New[struct {
		Version int64 `dynamodbav:"version,omitempty"`
	}](client, "t", old)
	refused("a version that would be overwritten", "version", err)
	_, err = New[struct{ Version uint64 }](client, "t", old)
	refused("a version by its field's name", "version", err)
	_, err = New[*struct {
		V string `dynamodbav:"slidingttl_version"`
	}](client, "t", nil)
	refused("a String for a version", versionName, err)
	_, err = New[struct{ Ttl int64 }](client, "t", nil)
	refused("an expiry in another case", "ttl", err)
	_, err = New[struct {
		TTL int8 `dynamodbav:"ttl"`
	}](client, "t", nil)
	refused("an expiry that would overflow", "ttl", err)
	_, err = New[struct {
		TTL int32 `dynamodbav:"ttl"`
	}](client, "t", nil)
	refused("an expiry that would overflow after 2038", "ttl", err)
	_, err = New[struct {
		CreatedAt int64 `dynamodbav:"created_at"`
	}](client, "t", nil)
	refused("a created_at of another format", "created_at", err)
	_, err = New[struct{ PK string }](client, "t", nil)
	refused("a key in another case", "pk", err)
	_, err = New[struct{ ID string }](client, "t", &Options{PartitionKey: KeyAttribute{Name: "pk"}, SortKey: KeyAttribute{Name: "id", Of: Fixed("x")}})
	refused("a sort key in another case", "id", err)
	_, err = New[struct {
		ID int64 `dynamodbav:"id"`
	}](client, "t", &Options{PartitionKey: KeyAttribute{Name: "id"}})
	refused("a Number for a key", "id", err)
	_, err = New[map[string]int](client, "t", nil)
	refused("a map that holds no Strings", "pk", err)
	_, err = New[map[string]string](client, "t", apartly())
	refused("a map of strings, which holds no Map", "slidingttl_expiry", err)
	_, err = New[struct {
		CreatedAt int64 `json:"created_at"`
	}](client, "t", &Options{
		Encoder: func(o *attributevalue.EncoderOptions) { o.TagKey = "json" },
		Decoder: func(o *attributevalue.DecoderOptions) { o.TagKey = "json" },
	})
	refused("by json tags", "created_at", err)

	for name, err := range map[string]error{
		"a version of its own": func() error {
			_, err := New[struct {
				Version int32 `dynamodbav:"version"`
			}](client, "t", nil)
			return err
		}(),
		"fields that can hold it":    func() error { _, err := New[everything](client, "t", nil); return err }(),
		"a map":                      func() error { _, err := New[map[string]any](client, "t", nil); return err }(),
		"a map of strings":           func() error { _, err := New[map[string]string](client, "t", nil); return err }(),
		"a map, and a life table":    func() error { _, err := New[map[string]any](client, "t", apartly()); return err }(),
		"a type that decodes itself": func() error { _, err := New[picky](client, "t", nil); return err }(),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// picky decodes nothing that has no user.
type picky struct{ user string }

func (p *picky) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	m, ok := av.(*types.AttributeValueMemberM)
	if !ok || m.Value["user"] == nil {
		return errors.New("no user")
	}
	p.user = plain(m.Value["user"])
	return nil
}

// TestForeignVersion reads items of a program that counts versions of its own.
func TestForeignVersion(t *testing.T) {
	type counted struct {
		User    string `dynamodbav:"user"`
		Version int32  `dynamodbav:"version"`
	}
	tbl := open[counted](t, nil)
	ctx := t.Context()
	tbl.put(t, "k", attrs{"user": text("one"), "version": number("3")})
	clock := handsAt(base)
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[counted]{Now: clock.Now})
	for range 3 {
		v, err := s.Get(ctx, "k")
		if err != nil || v.Version != 3 {
			t.Fatalf("Get: %+v, %v", v, err)
		}
		clock.forward(5 * time.Minute)
	}
	if got := plain(tbl.raw(t, "k")["version"]); got != "3" {
		t.Errorf("the touches made version %s of 3", got)
	}
	if err := s.Upsert(ctx, "k", counted{"two", 4}); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(ctx, "k"); err != nil || v.Version != 4 {
		t.Errorf("Get: %+v, %v", v, err)
	}
}

func TestCreatedAtAsNumber(t *testing.T) {
	type numbered struct {
		CreatedAt int64 `dynamodbav:"created_at"`
	}
	tbl := open[numbered](t, &Options{CreatedAtFormat: UnixMilli})
	m := tbl.mustInsert(t, "k", numbered{}, lasting(time.Minute), base)
	if e := tbl.mustGet(t, "k"); e.Value.CreatedAt != int64(base) || e.Meta != m {
		t.Errorf("read %+v", e)
	}
	_, err := tbl.Insert(t.Context(), "early", numbered{}, driver.Life{CreatedAt: 1}, base)
	wantInvalid(t, "a created_at that would read as seconds", err, "created_at")
}

// TestCreatedAtOfAnotherProgram: an overwrite keeps created_at as another program has written it, and is refused
// where a field of T's own cannot hold that, for nobody could read the record.
func TestCreatedAtOfAnotherProgram(t *testing.T) {
	type numbered struct {
		CreatedAt int64 `dynamodbav:"created_at"`
	}
	tbl := open[numbered](t, &Options{CreatedAtFormat: UnixMilli})
	s, err := slidingttl.New(tbl.Driver, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[numbered]{Now: base.Time})
	if err != nil {
		t.Fatal(err)
	}
	for key, created := range map[string]types.AttributeValue{
		"text": text(base.Time().Format(time.RFC3339)), "fraction": number(itoa(base/1000) + ".125"), "seconds": number(itoa(base / 1000)),
	} {
		tbl.put(t, key, attrs{"created_at": created})
		before := tbl.raw(t, key)
		err := s.Upsert(t.Context(), key, numbered{})
		if key == "seconds" {
			if err != nil {
				t.Error(err)
			}
			if _, err := s.Get(t.Context(), key); err != nil {
				t.Error(err)
			}
			continue
		}
		if wantInvalid(t, key, err, "created_at"); !reflect.DeepEqual(tbl.raw(t, key), before) {
			t.Errorf("%s: the refused write left %v", key, tbl.raw(t, key))
		}
	}
}

// Reserved words, and names that an expression could not hold as they are.
func TestAttributeNames(t *testing.T) {
	type words struct {
		Select string `dynamodbav:"SELECT"`
	}
	for _, o := range []Options{
		{PartitionKey: KeyAttribute{Name: "KEY"}, Expiry: "TTL", CreatedAt: "DATE", Version: "SIZE", RetainedExpiry: "AT", Retain: time.Hour},
		{PartitionKey: KeyAttribute{Name: "a.b"}, SortKey: KeyAttribute{Name: "#s", Of: Fixed("x")}, Expiry: "expires at", CreatedAt: "created:at", Version: "v[0]", RetainedExpiry: "x.at", Retain: time.Hour},
	} {
		tbl := open[words](t, &o)
		ctx := t.Context()
		m := tbl.mustInsert(t, "k", words{"one"}, lasting(time.Minute), base)
		var err error
		if m.Version, err = tbl.Replace(ctx, "k", words{"two"}, m, m.Life, base); err != nil {
			t.Fatal(err)
		}
		if _, err := tbl.Touch(ctx, "k", m, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
		m.Life = lasting(time.Hour)
		if e := tbl.mustGet(t, "k"); e.Meta != m || e.Value.Select != "two" {
			t.Errorf("read %+v", e)
		}
		item := tbl.raw(t, "k")
		for _, name := range []string{o.PartitionKey.Name, o.Expiry, o.CreatedAt, o.Version, o.RetainedExpiry} {
			if item[name] == nil {
				t.Errorf("the item has no %q: %v", name, item)
			}
		}
		if err := tbl.Check(ctx, time.Hour); err != nil {
			t.Error(err)
		}
	}
}

func TestKeys(t *testing.T) {
	const secret = "4d1f-secret"
	long := strings.Repeat("k", maxPartitionKey)
	for _, tt := range []struct {
		name string
		opts Options
		good []string
		bad  []string
	}{
		{"as they are", Options{}, []string{secret, long, "é\n\x00"}, []string{"", long + "k", "\xff" + secret}},
		{"computed", Options{
			PartitionKey: KeyAttribute{Name: "pk", Of: Prefix("SESSION#")},
			SortKey:      KeyAttribute{Name: "sk", Of: Fixed("METADATA")},
		}, []string{secret, long[8:]}, []string{"", long}},
		{"of two parts", Options{
			PartitionKey: KeyAttribute{Name: "PK", Of: func(key string) string { u, _, _ := strings.Cut(key, "/"); return "USER#" + u }},
			SortKey:      KeyAttribute{Name: "SK", Of: func(key string) string { _, s, _ := strings.Cut(key, "/"); return "SESSION#" + s }},
		}, []string{"42/abc", "42/abd", "43/abc"}, []string{"", "42/" + long}},
		{"in the sort key", Options{
			PartitionKey: KeyAttribute{Of: Fixed("SESSIONS")},
			SortKey:      KeyAttribute{Name: "sk", Of: Prefix("")},
		}, []string{secret, long[:maxSortKey]}, []string{"", long}},
		{"numbers", Options{PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeN}},
			[]string{"0", "-7", "42", strings.Repeat("9", maxDigits), "1" + strings.Repeat("0", maxDigits-1)},
			[]string{"", secret, "007", "-0", "+1", "1.5", "1e3", "-", strings.Repeat("9", maxDigits+1)}},
		{"binary", Options{PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeB}},
			[]string{"\xff\x00\xfe", secret}, []string{"", long + "k"}},
		{"a binary and a number", Options{
			PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeB},
			SortKey:      KeyAttribute{Name: "n", Type: types.ScalarAttributeTypeN, Of: func(key string) string { return itoa(driver.Instant(len(key))) }},
		}, []string{secret}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tbl := open[session](t, &tt.opts)
			ctx := t.Context()
			for _, key := range tt.good {
				m := tbl.mustInsert(t, key, session{User: hex.EncodeToString([]byte(key))}, lasting(time.Minute), base)
				if e := tbl.mustGet(t, key); e.Value.User != hex.EncodeToString([]byte(key)) || e.Meta != m {
					t.Errorf("read %+v", e)
				}
			}
			found, err := tbl.GetMulti(ctx, tt.good)
			if err != nil || len(found) != len(tt.good) {
				t.Fatalf("GetMulti: %d of %d, %v", len(found), len(tt.good), err)
			}
			for key, e := range found {
				if e.Value.User != hex.EncodeToString([]byte(key)) {
					t.Error("GetMulti mixed up the keys")
				}
			}
			tbl.wire.reset()
			for _, key := range tt.bad {
				_, errGet := tbl.Get(ctx, key)
				_, errInsert := tbl.Insert(ctx, key, session{}, lasting(time.Minute), base)
				_, errReplace := tbl.Replace(ctx, key, session{}, driver.Meta{}, lasting(time.Minute), base)
				_, errTouch := tbl.Touch(ctx, key, driver.Meta{}, lasting(time.Minute), base)
				_, errMulti := tbl.GetMulti(ctx, []string{key})
				for _, err := range []error{errGet, errInsert, errReplace, errTouch, errMulti, tbl.Delete(ctx, key)} {
					wantInvalid(t, "a bad key", err, "key")
					if key != "" && strings.Contains(err.Error(), key) {
						t.Errorf("the error quotes the key: %v", err)
					}
				}
			}
			tbl.wire.want(t, "bad keys")
			for _, key := range tt.good {
				if err := tbl.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestTwoKeysOneItem(t *testing.T) {
	tbl := open[session](t, &Options{PartitionKey: KeyAttribute{Of: strings.ToLower}})
	tbl.mustInsert(t, "ab", session{}, lasting(time.Minute), base)
	found, err := tbl.GetMulti(t.Context(), []string{"Ab", "", "aB", "Ab", "c"})
	wantInvalid(t, "two keys of one item", err, "key")
	var bad driver.KeyErrors
	if !errors.As(err, &bad) || len(bad) != 2 || bad[0].Index != 1 || bad[1].Index != 2 {
		t.Errorf("error %v, want those of the second and the third key", err)
	}
	wantInvalid(t, "two keys of one item", bad[1], "key", "an item of its own")
	if len(found) != 1 || found["Ab"].CreatedAt != base {
		t.Errorf("found %v, want the first", found)
	}
}

func TestOptions(t *testing.T) {
	client := &dynamodb.Client{}
	for _, tt := range []struct {
		opts  Options
		field string
	}{
		{Options{PartitionKey: KeyAttribute{Name: "ttl"}}, "Expiry"},
		{Options{PartitionKey: KeyAttribute{Type: "X"}}, "PartitionKey.Type"},
		{Options{SortKey: KeyAttribute{Name: "sk"}}, "SortKey.Of"},
		{Options{SortKey: KeyAttribute{Name: "pk", Of: Fixed("")}}, "SortKey.Name"},
		{Options{SortKey: KeyAttribute{Of: Fixed("")}}, "SortKey.Name"},
		{Options{SortKey: KeyAttribute{Name: "sk", Type: "BOOL", Of: Fixed("")}}, "SortKey.Type"},
		{Options{Expiry: "x", CreatedAt: "x"}, "CreatedAt"},
		{Options{CreatedAt: versionName}, "Version"},
		{Options{CreatedAtFormat: 2}, "CreatedAtFormat"},
		{Options{MaxSkew: -1}, "MaxSkew"},
		{Options{Retain: -1}, "Retain"},
		{Options{RetainedExpiry: "ttl"}, "RetainedExpiry"},
	} {
		_, err := New[session](client, "t", &tt.opts)
		wantInvalid(t, tt.field, err, "Options."+tt.field)
	}
	_, err := New[session](nil, "t", nil)
	wantInvalid(t, "no client", err, "client")
	_, err = New[session](client, "", nil)
	wantInvalid(t, "no table", err, "table")

	o := Options{Expiry: "expires"}
	d, err := New[session](client, "t", &o)
	if err != nil {
		t.Fatal(err)
	}
	o.Expiry = "changed"
	if d.opts.Expiry != "expires" || o.PartitionKey.Name != "" {
		t.Error("the options are not copied")
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	ctx := t.Context()
	life := lasting(time.Minute)

	words := open[string](t, nil)
	_, err := words.Insert(ctx, "k", "not a map", life, base)
	wantInvalid(t, "a string", err, "value", "must encode to a map")
	if words.raw(t, "k") != nil {
		t.Error("it was written")
	}
	pointers := open[*session](t, nil)
	_, err = pointers.Insert(ctx, "k", nil, life, base)
	wantInvalid(t, "nil", err, "value")

	type unencodable struct{ N attributevalue.Number }
	numbers := open[unencodable](t, nil)
	if _, err := numbers.Insert(ctx, "k", unencodable{"secret"}, life, base); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a Number that is none: %v", err)
	}

	// A stored record of another shape: what it holds stays out of the error.
	tbl := open[struct {
		N int8 `dynamodbav:"n"`
		M int8 `dynamodbav:"m"`
	}](t, nil)
	for name, av := range map[string]types.AttributeValue{"a String": text("hunter2"), "too large": number("31337")} {
		tbl.put(t, "k", attrs{"n": av, "m": number("1")})
		_, err = tbl.Get(ctx, "k")
		wantInvalid(t, name, err, `attribute "n"`, "int8")
		if strings.Contains(err.Error(), plain(av)) {
			t.Errorf("%s: the error quotes it: %v", name, err)
		}
		var wrong *attributevalue.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: attributevalue's error is out of reach: %v", name, err)
		}
	}
}

func TestItemTooLarge(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	const limit = 400 << 10
	_, err := tbl.Insert(ctx, "k", session{User: strings.Repeat("x", limit)}, lasting(time.Minute), base)
	wantInvalid(t, "Insert", err, "item", "400 KB")
	if tbl.raw(t, "k") != nil {
		t.Error("it was written")
	}

	// An item just within the limit has no room left for what adopts it.
	tbl.put(t, "k", attrs{"user": text(strings.Repeat("x", limit-len("pkkuser")))})
	e := tbl.mustGet(t, "k")
	_, err = tbl.Touch(ctx, "k", e.Meta, lasting(time.Minute), base)
	wantInvalid(t, "Touch", err, "item", "400 KB")

	fits := session{User: strings.Repeat("x", limit-200)}
	m := tbl.mustInsert(t, "fits", fits, lasting(time.Minute), base)
	if _, err := tbl.Touch(ctx, "fits", m, lasting(time.Hour), base); err != nil {
		t.Error(err)
	}
	if e := tbl.mustGet(t, "fits"); e.Value != fits {
		t.Error("an item of almost 400 KB does not come back whole")
	}
}

func TestInstantsOutOfRange(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	tbl.wire.reset()
	for field, life := range map[string]driver.Life{
		"created_at": {CreatedAt: -1},
		"expiry":     {CreatedAt: 1, ExpiresAt: driver.MaxInstant},
	} {
		_, err := tbl.Insert(ctx, "k", session{}, life, base)
		wantInvalid(t, "Insert", err, field)
		_, err = tbl.Replace(ctx, "k", session{}, driver.Meta{}, life, base)
		wantInvalid(t, "Replace", err, field)
		_, err = tbl.Touch(ctx, "k", driver.Meta{}, life, base)
		wantInvalid(t, "Touch", err, field)
	}
	tbl.wire.want(t, "nothing")
}

func TestCodecOptions(t *testing.T) {
	type tagged struct {
		Name string   `json:"name"`
		Set  []string `json:"set"`
	}
	tbl := open[tagged](t, &Options{
		Encoder: func(o *attributevalue.EncoderOptions) { o.TagKey = "json" },
		Decoder: func(o *attributevalue.DecoderOptions) { o.TagKey = "json" },
	})
	want := tagged{"n", []string{"a"}}
	tbl.mustInsert(t, "k", want, lasting(time.Minute), base)
	if e := tbl.mustGet(t, "k"); !reflect.DeepEqual(e.Value, want) {
		t.Errorf("read %+v", e.Value)
	}
	if plain(tbl.raw(t, "k")["name"]) != "n" {
		t.Errorf("the item is %v, want the names of json tags", tbl.raw(t, "k"))
	}
}

// owner hands out a map of its own.
type owner struct{ m attrs }

func (o owner) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberM{Value: o.m}, nil
}
func (o *owner) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	o.m = av.(*types.AttributeValueMemberM).Value
	return nil
}

func TestAValueIsNotChanged(t *testing.T) {
	tbl := open[owner](t, nil)
	v := owner{attrs{"user": text("one"), "ttl": number("1")}}
	tbl.mustInsert(t, "k", v, lasting(time.Minute), base)
	if len(v.m) != 2 || plain(v.m["ttl"]) != "1" {
		t.Errorf("Insert changed the value to %v", v.m)
	}
}

// A key that only some T hold is refused by the write.
func TestTypedKey(t *testing.T) {
	type host struct {
		ID address `dynamodbav:"pk"`
	}
	tbl := open[host](t, nil)
	v := host{address{netip.MustParseAddr("10.0.0.1")}}
	tbl.mustInsert(t, "10.0.0.1", v, lasting(time.Hour), base)
	if e := tbl.mustGet(t, "10.0.0.1"); e.Value != v {
		t.Errorf("read %+v", e)
	}
	_, err := tbl.Insert(t.Context(), "localhost", v, lasting(time.Hour), base)
	wantInvalid(t, "a key that the field cannot hold", err, "value", "key")
}

// address is a String that not each key is.
type address struct{ netip.Addr }

func (a address) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return text(a.String()), nil
}

func (a *address) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) (err error) {
	a.Addr, err = netip.ParseAddr(plain(av))
	return err
}
