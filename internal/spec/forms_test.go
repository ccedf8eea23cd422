package spec

import (
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The forms are written here by the words of docs/specification.md, and not by the drivers' code.

const (
	dies    = born + 30*minute
	extends = born + 90*minute
	inLife  = born + 10*minute
	value   = `{"v":"ann"}`
	other   = `{"v":"bob"}`
)

var (
	life   = &Life{born, dies}
	longer = &Life{born, extends}
)

// header is B.1's; version is 16 digits.
func header(l Life, version string) string {
	return fmt.Sprintf("\x00sl1 %015d %015d %s ", l.Created, l.Expires, version)
}

const (
	redisVersion = "9f86d081884c7d65"
	redisDrawn   = "????????????????"
)

func redisForms() (all []Form[RedisString]) {
	type form = Form[RedisString]
	key := func(s string, expires int64) *RedisString { return &RedisString{s, expires} }
	content := func(s string) string { sum := sha1.Sum([]byte(s)); return fmt.Sprintf("%x", sum[:8]) }
	own := func(l *Life, retain int64, v string) *RedisString {
		gone := int64(-1)
		if l.Expires != 0 {
			gone = l.Expires + retain
		}
		return key(header(*l, redisVersion)+v, gone)
	}
	read := func(name string, stored *RedisString, l *Life, version, v string) {
		all = append(all, form{Name: name, Stored: stored, Life: l, Version: version, Value: v})
	}
	endless := &Life{born, 0}
	read("a record", own(life, 0, value), life, redisVersion, value)
	read("a record that is retained", own(life, hour, value), life, redisVersion, value)
	read("a record without expiry", own(endless, 0, value), endless, redisVersion, value)
	read("a record whose key another program gave a later expiry", key(header(*life, redisVersion)+value, extends), life, redisVersion, value)
	read("a record whose key another program gave no expiry", key(header(*life, redisVersion)+value, -1), life, redisVersion, value)
	read("the least version", key(header(*life, "0000000000000001")+value, dies), life, "0000000000000001", value)
	read("the largest version", key(header(*life, "ffffffffffffffff")+value, dies), life, "ffffffffffffffff", value)
	read("an early created_at", key(header(Life{1, dies}, redisVersion)+value, dies), &Life{1, dies}, redisVersion, value)
	read("a string of another program", key(value, dies), &Life{0, dies}, content(value), value)
	read("a string of another program without expiry", key(other, -1), &Life{0, 0}, content(other), other)
	for _, far := range []int64{9999999999999000, 9007199254740992} {
		read(fmt.Sprintf("a string of another program that expires at %d", far), key(value, far), &Life{0, 999999999999999}, content(value), value)
	}
	read("a string with the mark not at its start", key(`{"v":"sl1 "}`, -1), &Life{0, 0}, content(`{"v":"sl1 "}`), `{"v":"sl1 "}`)
	for _, bad := range []struct{ name, text string }{
		{"a mark alone", "\x00sl1 "},
		{"a header that is cut", header(*life, redisVersion)[:40]},
		{"a letter in created_at", "\x00sl1 00220898880012x 002208990600123 " + redisVersion + " " + value},
		{"a letter in the expiry", "\x00sl1 002208988800123 00220899060012x " + redisVersion + " " + value},
		{"a version in capitals", "\x00sl1 002208988800123 002208990600123 9F86D081884C7D65 " + value},
		{"no space between", "\x00sl1 002208988800123x002208990600123 " + redisVersion + " " + value},
		{"a version of zero", header(*life, "0000000000000000") + value},
		{"a header without its last space", strings.TrimSuffix(header(*life, redisVersion), " ")},
		{"another byte than the last space", strings.TrimSuffix(header(*life, redisVersion), " ") + "x" + value},
	} {
		all = append(all, form{Name: bad.name, Stored: key(bad.text, dies), Refused: true})
	}

	write := func(f form) { all = append(all, f) }
	for _, retain := range []int64{0, hour} {
		after := func(l *Life, version, v string) *RedisString {
			gone := int64(-1)
			if l.Expires != 0 {
				gone = l.Expires + retain
			}
			return key(header(*l, version)+v, gone)
		}
		of := fmt.Sprintf(", held %d ms", retain)
		write(form{Name: "a new record" + of, Retain: retain, Now: born, Do: Insert, Writes: life, Value: value, Answer: OK, After: after(life, redisDrawn, value)})
		write(form{Name: "a new record without expiry" + of, Retain: retain, Now: born, Do: Insert, Writes: endless, Value: value, Answer: OK, After: after(endless, redisDrawn, value)})
		stored := own(life, retain, value)
		write(form{Name: "an insert over a live record" + of, Retain: retain, Stored: stored, Now: inLife, Do: Insert, Writes: longer, Value: other, Answer: Exists, After: stored})
		next := &Life{dies, dies + hour}
		write(form{Name: "an insert over a dead record" + of, Retain: retain, Stored: stored, Now: dies, Do: Insert, Writes: next, Value: other, Answer: OK, After: after(next, redisDrawn, other)})
		write(form{Name: "a touch" + of, Retain: retain, Stored: stored, Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: after(longer, redisVersion, value)})
		write(form{Name: "a touch that lowers" + of, Retain: retain, Stored: own(longer, retain, value), Now: inLife, Do: Touch, Writes: life, Answer: OK, After: after(life, redisVersion, value)})
		write(form{Name: "a touch of a record without retention" + of, Retain: retain, Stored: own(life, 0, value), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: after(longer, redisVersion, value)})
		write(form{Name: "a touch of a dead record" + of, Retain: retain, Stored: stored, Now: dies, Do: Touch, Writes: longer, Answer: NotFound, After: stored})
		write(form{Name: "an adoption" + of, Retain: retain, Stored: key(value, dies), Now: inLife, Do: Touch, Writes: &Life{inLife, extends}, Answer: OK, After: after(&Life{inLife, extends}, redisDrawn, value)})
		write(form{Name: "an adoption of a string without expiry" + of, Retain: retain, Stored: key(value, -1), Now: inLife, Do: Touch, Writes: &Life{inLife, extends}, Answer: OK, After: after(&Life{inLife, extends}, redisDrawn, value)})
		write(form{Name: "an adoption taken back" + of, Retain: retain, Stored: stored, Now: inLife, Do: Touch, Writes: &Life{0, extends}, Answer: OK, After: key(value, extends)})
		write(form{Name: "an overwrite" + of, Retain: retain, Stored: stored, Now: inLife, Do: Replace, Writes: longer, Value: other, Answer: OK, After: after(longer, redisDrawn, other)})
		write(form{Name: "an overwrite of a dead record" + of, Retain: retain, Stored: stored, Now: dies, Do: Replace, Writes: longer, Value: other, Answer: NotFound, After: stored})
	}
	return all
}

// The attributes of DynamoDB.
type attr = map[string]any

func str(s string) attr         { return attr{"S": s} }
func num(n any) attr            { return attr{"N": fmt.Sprint(n)} }
func secs(ms int64) attr        { return num((ms + 999) / 1000) }
func dateOf(ms int64) string    { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
func beside(at, ttl int64) attr { return attr{"M": attr{"at": secs(at), "ttl": secs(ttl)}} }

const (
	itemVersion    int64 = 4503599627370497
	itemGeneration       = itemVersion >> 33
	itemDrawn            = "?"
	hold                 = 12 * hour
	lifeLasts            = 14 * day
)

// whole is a time rounded up to the second, as an item keeps it.
func whole(ms int64) int64 { return (ms + 999) / 1000 * 1000 }

func itemForms() (all []Form[Item]) {
	type form = Form[Item]
	item := func(name string, created, ttl, version, map_ attr) map[string]any {
		i := map[string]any{"v": str(name)}
		for attribute, av := range map[string]attr{"created_at": created, "ttl": ttl, "slidingttl_version": version, "slidingttl_expiry": map_} {
			if av != nil {
				i[attribute] = av
			}
		}
		return i
	}
	of := func(i map[string]any) *Item { return &Item{Item: i} }
	version := num(itemVersion)
	read := func(name string, created, ttl, v, map_ attr, l Life) {
		f := form{Name: name, Stored: of(item("ann", created, ttl, v, map_)), Life: &l, Value: value}
		if v != nil && v["N"] == version["N"] {
			f.Version = strconv.FormatInt(itemVersion, 10)
		}
		all = append(all, f)
	}
	c, e := str(dateOf(born)), secs(dies)
	at := Life{born, whole(dies)}
	read("an item", c, e, version, nil, at)
	read("created_at with an offset", str(time.UnixMilli(born).In(time.FixedZone("", 2*3600)).Format("2006-01-02T15:04:05.000Z07:00")), e, version, nil, at)
	read("created_at with nanoseconds", str("2040-01-01T00:00:00.123999999Z"), e, version, nil, at)
	read("created_at without a fraction", str("2040-01-01T00:00:00Z"), e, version, nil, Life{born - 123, at.Expires})
	read("created_at in milliseconds", num(born), e, version, nil, at)
	read("created_at in seconds", num(born/1000), e, version, nil, Life{born - 123, at.Expires})
	read("created_at in seconds with decimals", num("2208988800.123"), e, version, nil, at)
	read("no created_at", nil, e, nil, nil, Life{0, at.Expires})
	read("created_at NULL", attr{"NULL": true}, e, version, nil, Life{0, at.Expires})
	read("created_at empty", str(""), e, version, nil, Life{0, at.Expires})
	read("created_at the zero time of Go", str("0001-01-01T00:00:00Z"), e, version, nil, Life{0, at.Expires})
	read("ttl as a String before 1970", c, str("1969-12-31T23:59:59Z"), version, nil, Life{born, 1})
	read("no ttl", c, nil, version, nil, Life{born, 0})
	read("ttl NULL", c, attr{"NULL": true}, version, nil, Life{born, 0})
	read("ttl in milliseconds", c, num(dies), version, nil, Life{born, dies})
	read("ttl with decimals", c, num("2208990600.1231"), version, nil, Life{born, dies + 1})
	read("ttl as a String of digits", c, str("2208990601"), version, nil, at)
	read("ttl as a String of RFC 3339", c, str("2040-01-01T00:30:00.123Z"), version, nil, Life{born, dies})
	read("ttl zero", c, num(0), version, nil, Life{born, 1})
	read("ttl negative", c, num(-5), version, nil, Life{born, 1})
	read("no version", c, e, nil, nil, at)
	read("retained", c, secs(dies+5*hour), version, beside(dies, dies+5*hour), at)
	read("retained, and ttl moved by another program", c, secs(extends), version, beside(dies, dies+5*hour), Life{born, whole(extends)})
	read("retained, and ttl removed by another program", c, nil, version, beside(dies, dies+5*hour), Life{born, 0})
	read("retained, and at later than ttl", c, secs(dies), version, beside(extends, dies), at)
	read("slidingttl_expiry of another type", c, e, version, str("soon"), at)
	for _, bad := range []struct {
		name       string
		created, e attr
	}{
		{"created_at that is no time", str("tomorrow"), e}, {"created_at BOOL", attr{"BOOL": true}, e},
		{"created_at negative", num(-5), e}, {"created_at before 1970", str("1969-12-31T23:59:59Z"), e}, {"created_at beyond all milliseconds", num("100000000000000"), e},
		{"created_at on a day that is not", str("2026-02-30T00:00:00Z"), e}, {"created_at at 24 o'clock", str("2026-04-30T24:00:00Z"), e},
		{"ttl that is no time", c, str("tomorrow")}, {"ttl BOOL", c, attr{"BOOL": false}}, {"ttl on a day that is not", c, str("2041-02-29T00:00:00Z")},
	} {
		all = append(all, form{Name: bad.name, Stored: of(item("ann", bad.created, bad.e, version, nil)), Refused: true})
	}
	for _, bad := range []struct {
		name    string
		created attr
		beside  attr
	}{
		{"slidingttl_expiry without at", c, attr{"M": attr{"ttl": e}}},
		{"slidingttl_expiry with at as a String", c, attr{"M": attr{"at": str("2208990601"), "ttl": e}}},
		{"slidingttl_expiry with a generation, and no created_at", nil, attr{"M": attr{"at": e, "ttl": e, "generation": num(itemGeneration)}}},
	} {
		all = append(all, form{Name: bad.name, Stored: of(item("ann", bad.created, e, version, bad.beside)), Refused: true})
	}

	write := func(f form) { all = append(all, f) }
	drawn := num(itemDrawn)
	own := of(item("ann", c, e, version, nil))
	for _, retain := range []int64{0, hour} {
		// kept is an item with expiry at.
		kept := func(name string, created attr, at int64, v attr) *Item {
			if retain == 0 {
				return of(item(name, created, secs(at), v, nil))
			}
			return of(item(name, created, secs(whole(at)+retain), v, beside(at, whole(at)+retain)))
		}
		stored, held := kept("ann", c, dies, version), fmt.Sprintf(", held %d ms", retain)
		write(form{Name: "a new item" + held, Retain: retain, Now: born, Do: Insert, Writes: life, Value: value, Answer: OK, After: kept("ann", c, dies, drawn)})
		write(form{Name: "a new item with created_at in milliseconds" + held, Layout: "unix milli", Retain: retain, Now: born, Do: Insert, Writes: life, Value: value, Answer: OK, After: kept("ann", num(born), dies, drawn)})
		write(form{Name: "a new item without expiry" + held, Retain: retain, Now: born, Do: Insert, Writes: &Life{born, 0}, Value: value, Answer: OK, After: of(item("ann", c, nil, drawn, nil))})
		write(form{Name: "an insert over a live item" + held, Retain: retain, Stored: stored, Now: inLife, Do: Insert, Writes: longer, Value: other, Answer: Exists, After: stored})
		late := whole(dies)
		write(form{Name: "an insert over a dead item" + held, Retain: retain, Stored: stored, Now: late, Do: Insert, Writes: &Life{late, extends}, Value: other, Answer: OK, After: kept("bob", str(dateOf(late)), extends, drawn)})
		write(form{Name: "a touch" + held, Retain: retain, Stored: stored, Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", c, extends, version)})
		write(form{Name: "a touch that lowers" + held, Retain: retain, Stored: kept("ann", c, extends, version), Now: inLife, Do: Touch, Writes: life, Answer: OK, After: stored})
		write(form{Name: "a touch of an item with another retention" + held, Retain: retain, Stored: of(item("ann", c, secs(dies+5*hour), version, beside(dies, dies+5*hour))), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", c, extends, version)})
		write(form{Name: "a touch of a dead item" + held, Retain: retain, Stored: stored, Now: late, Do: Touch, Writes: longer, Answer: NotFound, After: stored})
		write(form{Name: "an adoption" + held, Retain: retain, Stored: of(item("ann", nil, secs(dies), nil, nil)), Now: inLife, Do: Touch, Writes: &Life{inLife, extends}, Answer: OK, After: kept("ann", str(dateOf(inLife)), extends, drawn)})
		write(form{Name: "an adoption of an item without ttl" + held, Retain: retain, Stored: of(item("ann", nil, nil, nil, nil)), Now: inLife, Do: Touch, Writes: &Life{inLife, extends}, Answer: OK, After: kept("ann", str(dateOf(inLife)), extends, drawn)})
		write(form{Name: "an adoption taken back" + held, Retain: retain, Stored: stored, Now: inLife, Do: Touch, Writes: &Life{0, extends}, Answer: OK, After: of(item("ann", nil, secs(extends), nil, nil))})
		write(form{Name: "a touch of an item with created_at in seconds" + held, Retain: retain, Stored: kept("ann", num("2208988800.123"), dies, version), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", num("2208988800.123"), extends, version)})
		write(form{Name: "a touch of an item with created_at in milliseconds" + held, Retain: retain, Stored: kept("ann", num(born), dies, version), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", num(born), extends, version)})
		write(form{Name: "a touch of an item with an offset" + held, Retain: retain, Stored: kept("ann", str("2040-01-01T02:00:00.123+02:00"), dies, version), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", c, extends, version)})
		write(form{Name: "a touch of an item without version" + held, Retain: retain, Stored: kept("ann", c, dies, nil), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: kept("ann", c, extends, drawn)})
		write(form{Name: "an overwrite" + held, Retain: retain, Stored: stored, Now: inLife, Do: Replace, Writes: longer, Value: other, Answer: OK, After: kept("bob", c, extends, drawn)})
		write(form{Name: "an overwrite of an item with created_at in milliseconds" + held, Retain: retain, Stored: kept("ann", num(born), dies, version), Now: inLife, Do: Replace, Writes: longer, Value: other, Answer: OK, After: kept("bob", num(born), extends, drawn)})
	}
	write(form{Name: "a touch of an item with ttl in milliseconds", Stored: of(item("ann", c, num(dies), version, nil)), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: of(item("ann", c, secs(extends), version, nil))})
	write(form{Name: "a touch of an item whose ttl is a String", Stored: of(item("ann", c, str("2208990601"), version, nil)), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: of(item("ann", c, secs(extends), version, nil))})
	write(form{Name: "a touch of an item that cannot be read", Stored: of(item("ann", str("tomorrow"), e, version, nil)), Refused: true})

	// With a life table, ttl is Hold after created_at.
	const layout, until = "life table", born + hold
	apart := func(at, ttl int64, g any) attr {
		m := beside(at, ttl)
		m["M"].(attr)["generation"] = num(g)
		return m
	}
	inTable := func(at int64, g any, v attr) map[string]any {
		return map[string]any{"slidingttl_expiry": apart(at, until, g), "created_at": c, "ttl": secs(whole(until) + lifeLasts), "slidingttl_version": v}
	}
	valued := item("ann", c, secs(until), version, apart(dies, until, itemGeneration))
	both := func(lifeItem map[string]any) *Item { return &Item{valued, lifeItem} }
	readBoth := func(name string, lifeItem map[string]any, expires int64) {
		all = append(all, form{Name: name, Layout: layout, Stored: both(lifeItem), Life: &Life{born, whole(expires)}, Value: value})
	}
	readBoth("apart, and never touched", nil, dies)
	readBoth("apart, and touched", inTable(extends, itemGeneration, version), extends)
	all = append(all, form{Name: "in its own item, in a table with lives apart", Layout: layout, Stored: own, Life: &at, Version: strconv.FormatInt(itemVersion, 10), Value: value})
	earlier := inTable(extends, 7, version)
	earlier["created_at"] = str(dateOf(born - hour))
	readBoth("apart, and a life item of an earlier generation", earlier, dies)
	write(form{Name: "a new item, apart", Layout: layout, Now: born, Do: Insert, Writes: life, Value: value, Answer: OK, After: of(item("ann", c, secs(until), drawn, apart(dies, until, "?")))})
	write(form{Name: "the first touch, apart", Layout: layout, Stored: both(nil), Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: both(inTable(extends, itemGeneration, version))})
	write(form{Name: "another touch, apart", Layout: layout, Stored: both(inTable(extends, itemGeneration, version)), Now: inLife, Do: Touch, Writes: &Life{born, extends + hour}, Answer: OK, After: both(inTable(extends+hour, itemGeneration, version))})
	write(form{Name: "a touch of a dead record, apart", Layout: layout, Stored: both(nil), Now: extends, Do: Touch, Writes: longer, Answer: NotFound, After: both(nil)})
	return all
}

const rowVersion = 4711

func rowForms() (all []Form[Row]) {
	type form = Form[Row]
	row := func(v string, created, expires, sweep, version any) *Row {
		r := Row{"value": v}
		for column, is := range map[string]any{"created_at": created, "expires_at": expires, "sweep_at": sweep, "version": version} {
			if is == nil {
				r[column] = nil
			} else {
				r[column] = fmt.Sprint(is)
			}
		}
		return &r
	}
	const never = "9223372036854775807"
	for _, layout := range []string{"", "timestamp"} {
		at := func(ms int64) any {
			if layout == "" {
				return ms
			}
			return dateOf(ms)
		}
		read := func(name string, stored *Row, l Life, version string) {
			all = append(all, form{Name: name, Layout: layout, Stored: stored, Life: &l, Version: version, Value: value})
		}
		write := func(f form) { f.Layout = layout; all = append(all, f) }
		stored := row(value, at(born), at(dies), dies, rowVersion)
		read("a row", stored, *life, "4711")
		read("a row without expiry", row(value, at(born), nil, never, rowVersion), Life{born, 0}, "4711")
		read("a row of another program", row(value, nil, at(dies), 0, nil), Life{0, dies}, "")
		read("a row of another program without expiry", row(value, nil, nil, 0, nil), Life{0, 0}, "")
		read("a row that was touched", row(value, at(born), at(extends), dies, rowVersion), *longer, "4711")
		all = append(all, form{Name: "created_at that is no time", Layout: layout, Stored: row(value, "tomorrow", at(dies), dies, rowVersion), Refused: true})
		write(form{Name: "a new row", Now: born, Do: Insert, Writes: life, Value: value, Answer: OK, After: row(value, at(born), at(dies), dies, "?")})
		write(form{Name: "a new row without expiry", Now: born, Do: Insert, Writes: &Life{born, 0}, Value: value, Answer: OK, After: row(value, at(born), nil, never, "?")})
		write(form{Name: "an insert over a live row", Stored: stored, Now: inLife, Do: Insert, Writes: longer, Value: other, Answer: Exists, After: stored})
		write(form{Name: "an insert over a dead row", Stored: stored, Now: dies, Do: Insert, Writes: &Life{dies, extends}, Value: other, Answer: OK, After: row(other, at(dies), at(extends), extends, "?")})
		write(form{Name: "a touch leaves sweep_at", Stored: stored, Now: inLife, Do: Touch, Writes: longer, Answer: OK, After: row(value, at(born), at(extends), dies, rowVersion)})
		write(form{Name: "a touch that lowers lowers sweep_at", Stored: row(value, at(born), at(extends), extends, rowVersion), Now: inLife, Do: Touch, Writes: life, Answer: OK, After: stored})
		write(form{Name: "a touch of a dead row", Stored: stored, Now: dies, Do: Touch, Writes: longer, Answer: NotFound, After: stored})
		write(form{Name: "an adoption", Stored: row(value, nil, nil, never, nil), Now: inLife, Do: Touch, Writes: &Life{inLife, extends}, Answer: OK, After: row(value, at(inLife), at(extends), extends, nil)})
		write(form{Name: "an adoption taken back", Stored: stored, Now: inLife, Do: Touch, Writes: &Life{0, dies}, Answer: OK, After: row(value, nil, at(dies), dies, rowVersion)})
		write(form{Name: "an overwrite", Stored: stored, Now: inLife, Do: Replace, Writes: longer, Value: other, Answer: OK, After: row(other, at(born), at(extends), dies, "?")})
		write(form{Name: "an overwrite of a dead row", Stored: stored, Now: dies, Do: Replace, Writes: longer, Value: other, Answer: NotFound, After: stored})
	}
	return all
}
