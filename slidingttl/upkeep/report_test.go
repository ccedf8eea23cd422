package upkeep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Scripts read reports, and the command keeps them in files that it reads again.
func TestReportJSON(t *testing.T) {
	const all = `"records":9,"cost":1.5,"seconds":2,"done":true,"runs":2,"passed":3,"failed":1,"failures":{"down":1},"waiting":4,"unsure":5,"repeated":6,`
	const none = `"records":0,"cost":0,"seconds":0,"done":false,"runs":0,`
	const units = `"write_units":7,"vanished":8,"locked":9,"lost_races":10,"kept":11`
	for text, title := range map[string]string{
		all + `"applied":true,"policy":"idle 1h","adopted":1,"already":2,"dead":3,"too_old":4,"no_origin":5,"malformed":6,` + units + `,"problems":{"a < b":6}`:                              "adoption under idle 1h",
		none + `"applied":false,"policy":"idle 1h","adopted":0,"already":0,"dead":0,"too_old":0,"no_origin":0,"malformed":0,"write_units":0,"vanished":0,"locked":0,"lost_races":0,"kept":0`: "adoption under idle 1h, a dry run",
		all + `"applied":false,"mended":1,"faults":{"text":1},"left":2,"problems":{"word":2},"well":3,` + units:                                                                              "mending, a dry run",
		all + `"applied":true,"policy":"idle 1h","past_cap":1,"expired":2,"retained":3,"left":4,"alive":5,"malformed":6,"implausible":7,` + units + `,"problems":{"word":6}`:                 "reaping under idle 1h",
		all + `"applied":true,"retired":1,"dead":2,` + units:                                                             "retiring",
		all + `"applied":true,"erased":1,"ended":2,` + units + `,"missed":3,"others":4,"later":5,"left":["the journal"]`: "erasing",
		none + `"applied":true,"erased":0,"ended":0,` + units:                                                            "erasing",
		all + `"applied":true,"undone":1,"changed":2,"already":3,` + units + `,"torn":4`:                                 "adoption taken back",
		all + `"applied":true,"policy":"idle 1h","since":1,"until":0,"idle":1,"age":2,"earlier":3,"alive":4,"past_cap":5,"ended":6,"malformed":7,"implausible":8,"lost":9,"problems":{"word":7},"again":["0123"]`: "harvest under idle 1h",
		none + `"applied":false,"policy":"idle 1h","since":0,"until":5,"idle":0,"age":0,"earlier":0,"alive":0,"past_cap":0,"ended":0,"malformed":0,"implausible":0,"lost":0`:                                      "harvest under idle 1h, a dry run",
	} {
		text = "{" + strings.ReplaceAll(text, "<", `\u003c`) + "}"
		var r upkeep.Report
		ok(t, json.Unmarshal([]byte(text), &r))
		got, err := json.Marshal(&r)
		ok(t, err)
		if string(got) != text {
			t.Errorf("read and written again:\n%s\nwas\n%s", got, text)
		}
		if first, _, _ := strings.Cut(r.String(), "\n"); !strings.HasPrefix(first, title) || !strings.Contains(r.String(), "records looked at") {
			t.Errorf("the text of %s begins with %q; want %q", text, first, title)
		}
	}
	if err := json.Unmarshal([]byte(`{"adopted":"one"}`), new(upkeep.Report)); err == nil {
		t.Error("a count that is no number was read")
	}
}
