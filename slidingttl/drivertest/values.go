package drivertest

import (
	"strings"
	"time"
)

var valueCases = []testCase{{
	name:        "value/round-trip",
	explanation: "A value must be read as it was written, to the last digit and byte.",
	run: func(t *trial) {
		big := value(1)
		big.Text = strings.Repeat("0123456789abcdef", 4096) // 64 KiB
		values := map[string]Value{"zero": {}, "full": value(3), "big": big}
		if t.b.MaxValue == 0 {
			huge := value(4)
			huge.Text = strings.Repeat("0123456789abcdef", 1<<16+1) // above 1 MiB
			values["huge"] = huge
		}
		negative := value(2)
		negative.Count, negative.Ratio = -countBase, -1.5e-100
		values["negative"] = negative
		for name, v := range values {
			key := t.key(name)
			version, err := t.d.Insert(t.ctx, key, v, t.life(time.Hour), t.now())
			t.ok("Insert of a "+name+" value", err)
			e := t.get(key)
			if !e.Value.equal(v) {
				t.Errorf("a %s value came back as %.200s; want %.200s", name, spell(e.Value), spell(v))
			}
			if e.Version != version {
				t.Errorf("a %s value has version %d; Insert returned %d", name, e.Version, version)
			}
		}
	},
}, {
	name:        "value/overwrite",
	explanation: "An overwrite must leave nothing of the former value: fields that are empty in the new value must be empty.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		_, err := t.d.Replace(t.ctx, t.key("a"), Value{}, e.Meta, e.Life, t.now())
		t.ok("Replace with a zero value", err)
		if got := t.get(t.key("a")).Value; !got.equal(Value{}) {
			t.Errorf("after Replace with a zero value the record holds %s", spell(got))
		}
	},
}, {
	name:        "value/untouched",
	explanation: "A driver must not change a value that it was given: the caller goes on using it.",
	run: func(t *trial) {
		v := value(1)
		_, err := t.d.Insert(t.ctx, t.key("a"), v, t.life(time.Hour), t.now())
		t.ok("Insert", err)
		e := t.get(t.key("a"))
		v2 := value(2)
		_, err = t.d.Replace(t.ctx, t.key("a"), v2, e.Meta, e.Life, t.now())
		t.ok("Replace", err)
		if !v.equal(value(1)) || !v2.equal(value(2)) || !e.Value.equal(value(1)) {
			t.Errorf("values given to or got from the driver have changed: %s, %s, %s", spell(v), spell(v2), spell(e.Value))
		}
	},
}, {
	name:        "value/copied",
	explanation: "A driver must share no memory with a value that it was given or has returned. Otherwise the caller's later changes to slices and maps change the record.",
	needs:       []Feature{Copies},
	run: func(t *trial) {
		scribble := func(v Value) {
			v.Bytes[0]++
			v.List[0] = "scribbled"
			v.Map["k"] = "scribbled"
		}
		v := value(1)
		_, err := t.d.Insert(t.ctx, t.key("a"), v, t.life(time.Hour), t.now())
		t.ok("Insert", err)
		scribble(v)
		got := t.get(t.key("a"))
		if !got.Value.equal(value(1)) {
			t.Errorf("what was done to a value after Insert shows in the record: %s", spell(got.Value))
		}
		scribble(got.Value)
		if got := t.get(t.key("a")).Value; !got.equal(value(1)) {
			t.Errorf("what was done to a value from Get shows in the record: %s", spell(got))
		}
	},
}}
