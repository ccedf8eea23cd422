package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

func TestPolicyForms(t *testing.T) {
	for _, tt := range []struct {
		policy     policy.Policy
		text, json string
	}{
		{
			policy.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day},
			"idle 30d, max 90d, slack 3d", `{"idle_grace":"30d","max_lifetime":"90d","slack":"3d"}`,
		},
		{
			policy.Policy{IdleGrace: 90 * time.Minute, MaxLifetime: 36 * time.Hour, Slack: 33 * time.Millisecond, MaxSlack: 10 * time.Minute},
			"idle 1h30m, max 1d12h, slack 33ms, max slack 10m",
			`{"idle_grace":"1h30m","max_lifetime":"1d12h","slack":"33ms","max_slack":"10m"}`,
		},
		{
			policy.Policy{IdleGrace: 20 * time.Second, MaxLifetime: 365 * day, Promote: true},
			"idle 20s, max 365d, promote", `{"idle_grace":"20s","max_lifetime":"365d","promote":true}`,
		},
		{
			policy.Policy{IdleGrace: policy.NoCap, MaxLifetime: policy.NoCap},
			"idle 106751d23h47m16.854s, max none", `{"idle_grace":"106751d23h47m16.854s","max_lifetime":"none"}`,
		},
	} {
		if got := tt.policy.String(); got != tt.text {
			t.Errorf("String() = %q, want %q", got, tt.text)
		}
		if got, err := policy.Parse(tt.text); err != nil || got != tt.policy {
			t.Errorf("ParsePolicy(%q) = %v, %v", tt.text, got, err)
		}
		got, err := json.Marshal(tt.policy)
		if err != nil || string(got) != tt.json {
			t.Errorf("Marshal(%v) = %s, %v; want %s", tt.policy, got, err, tt.json)
		}
		var read policy.Policy
		if err := json.Unmarshal(got, &read); err != nil || read != tt.policy {
			t.Errorf("Unmarshal(%s) = %v, %v", got, read, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "policy", tt.policy)
		if want := `"policy":"` + tt.text + `"`; !strings.Contains(log.String(), want) {
			t.Errorf("logged as %s, want %s", log.String(), want)
		}
	}
}

func TestParsePolicyReadsFreely(t *testing.T) {
	want := policy.Policy{IdleGrace: 30 * day, MaxLifetime: 90*day + 500*time.Millisecond, Slack: 3 * day}
	for _, text := range []string{
		"slack 72h,max 90d0.5s,idle 720h",
		" idle 30d ,  max 90d500ms , slack 2d24h,max slack 0",
	} {
		if got, err := policy.Parse(text); err != nil || got != want {
			t.Errorf("ParsePolicy(%q) = %v, %v", text, got, err)
		}
	}
	var p policy.Policy
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.TextVar(&p, "policy", policy.Policy{IdleGrace: time.Hour, MaxLifetime: day}, "")
	if err := flags.Parse([]string{"-policy", want.String()}); err != nil || p != want {
		t.Errorf("as a flag: %v, %v", p, err)
	}
	for _, s := range []string{`{"slack":"72h","promote":false,"max_lifetime":"90d500ms","idle_grace":"30d"}`, `null`} {
		if err := json.Unmarshal([]byte(s), &p); err != nil || p != want {
			t.Errorf("Unmarshal(%s) = %v, %v", s, p, err)
		}
	}
}

func TestPolicyFormsRefuse(t *testing.T) {
	const rest, jsonRest = ", max 90d", `,"max_lifetime":"90d"}`
	for _, tt := range []struct{ text, json, field string }{
		{"", `{}`, ""},
		{"idle 30d", `{"idle_grace":"30d"}`, "Policy.MaxLifetime"},
		{"idle" + rest, `{"idle_grace":""` + jsonRest, ""},
		{"idle 30" + rest, `{"idle_grace":30` + jsonRest, "Policy.IdleGrace"},
		{"idle 1.5d" + rest, `{"idle_grace":"1.5d"` + jsonRest, "Policy.IdleGrace"},
		{"idle d" + rest, `{"idle_grace":"d"` + jsonRest, "Policy.IdleGrace"},
		{"idle 1d-1h" + rest, `{"idle_grace":"1d-1h"` + jsonRest, "Policy.IdleGrace"},
		{"idle 1d1d" + rest, `{"idle_grace":"1d1d"` + jsonRest, "Policy.IdleGrace"},
		{"idle -1h" + rest, `{"idle_grace":"-1h"` + jsonRest, "Policy.IdleGrace"},
		{"idle 1500us" + rest, `{"idle_grace":"1500us"` + jsonRest, "Policy.IdleGrace"},
		{"idle none" + rest, `{"idle_grace":"none"` + jsonRest, "Policy.IdleGrace"},
		{"idle 106752d" + rest, `{"idle_grace":"106752d"` + jsonRest, "Policy.IdleGrace"},
		{"idle 106751d24h" + rest, `{"idle_grace":"106751d24h"` + jsonRest, "Policy.IdleGrace"},
		{"idle 91d" + rest, `{"idle_grace":"91d"` + jsonRest, "Policy.IdleGrace"},
		{"idle 30d, idle 30d" + rest, `{"idle_grace":"30d","idle_grace":"30d"` + jsonRest, "policy"},
		{"idle 30d, promote, promote" + rest, `{"idle_grace":"30d","promote":true,"promote":true` + jsonRest, "policy"},
		{"idle 30d, promote yes" + rest, `{"idle_grace":"30d","promote":"yes"` + jsonRest, ""},
		{"Idle 30d" + rest, `{"Idle_Grace":"30d"` + jsonRest, "policy"},
		{"idle 30d, grace 1d" + rest, `{"idle_grace":"30d","grace":"1d"` + jsonRest, "policy"},
		{"idle 30d, " + rest, `[]`, "policy"},
		{"idle 30d, slack 31d" + rest, `{"idle_grace":"30d","slack":"31d"` + jsonRest, "Policy.Slack"},
		{"idle {}" + rest, `{"idle_grace":{}` + jsonRest, "Policy.IdleGrace"},
		{"idle 30d; max 90d", `{"idle_grace":"30d;"` + jsonRest, ""},
	} {
		before := policy.Policy{IdleGrace: time.Hour, MaxLifetime: day}
		p, q := before, before
		for form, err := range map[string]error{
			tt.text: p.UnmarshalText([]byte(tt.text)),
			tt.json: json.Unmarshal([]byte(tt.json), &q),
		} {
			var invalid *driver.InvalidError
			if !errors.As(err, &invalid) {
				t.Errorf("%s: %v, want an InvalidError", form, err)
			} else if invalid.Value == "" || invalid.Rule == "" || tt.field != "" && invalid.Field != tt.field {
				t.Errorf("%s: %v, want one on %s", form, err, tt.field)
			}
		}
		if p != before || q != before {
			t.Errorf("%s left %v and %v behind", tt.text, p, q)
		}
	}
}

// FuzzPolicyText: what is written reads as what it was, in both forms, and what reads
// is valid.
func FuzzPolicyText(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		f.Add(policy.Policy{
			IdleGrace:   time.Duration(rng.Int64N(int64(40 * day))),
			MaxLifetime: policy.NoCap >> rng.IntN(20),
			Slack:       time.Duration(rng.Int64N(int64(day))),
			Promote:     rng.IntN(3) == 0,
		}.String())
	}
	f.Add("idle 30d, max none, slack 3d, max slack 30d")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.Parse(text)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := policy.Parse(p.String()); err != nil || again != p {
			t.Errorf("%q is written as %q, which reads as %v, %v", text, p, again, err)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again policy.Policy
		if err := json.Unmarshal(b, &again); err != nil || again != p {
			t.Errorf("%q is written as %s, which reads as %v, %v", text, b, again, err)
		}
	})
}
