package session

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/memory"
)

type fuzzData struct {
	Name  string
	Items []int
	Next  *fuzzData
}

// fuzzManager returns a manager with one session of the user "u" and that
// session's token.
func fuzzManager(f *testing.F) (*Manager[fuzzData], *memory.Driver[Record], token) {
	d, err := memory.New[Record](nil)
	if err != nil {
		f.Fatal(err)
	}
	m, err := New[fuzzData](d, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = m.Close(context.Background())
		_ = d.Close()
	})
	now, err := m.insert(f.Context(), Record{User: "u"}, fuzzData{})
	if err != nil {
		f.Fatal(err)
	}
	return m, d, now.token
}

// serve returns what a handler sees of a request with this Cookie header.
func serve[T any](t *testing.T, m *Manager[T], cookie string) (s Session[T]) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["Cookie"] = []string{cookie}
	w := httptest.NewRecorder()
	m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		if s, err = m.Get(r.Context()); err != nil {
			t.Errorf("Get: %v", err)
		}
	})).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	return s
}

// FuzzCookie: no Cookie header is an error. It opens the session if it has the cookie once, with
// the token, and otherwise none.
func FuzzCookie(f *testing.F) {
	m, _, token := fuzzManager(f)
	const name = "__Host-session="
	ours := regexp.MustCompile(`^[ \t]*__Host-session(?:=((?s:.*?)))?[ \t]*$`)
	for _, seed := range []string{"", ";", "=", name, name + "TOKEN", "a=b; " + name + "TOKEN", name + "TOKEN; " + name + "TOKEN",
		name + `"TOKEN"`, name + "TOKEN\r\n", " \t" + name + "TOKEN ;", "\x00" + name + "TOKEN", name + "TOKEN;0" + name + "TOKEN", "a" + name + "TOKEN", name + ";" + name + "TOKEN"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cookie string) {
		cookie = strings.ReplaceAll(cookie, "TOKEN", token.String())
		s := serve(t, m, cookie)
		if (s.ID == "") != (s.User == "") {
			t.Errorf("half a session: %+v", s)
		}
		var values []string
		for _, part := range strings.Split(cookie, ";") {
			if m := ours.FindStringSubmatch(part); m != nil {
				values = append(values, m[1])
			}
		}
		want := len(values) == 1 && values[0] == token.String()
		if (s.ID != "") != want {
			t.Errorf("session %+v, want one: %v", s, want)
		}
	})
}

// FuzzToken: a token has one spelling, and no other string opens its session.
func FuzzToken(f *testing.F) {
	m, _, token := fuzzManager(f)
	f.Add(token.String())
	f.Add(strings.Repeat("A", tokenLen))
	f.Add(strings.Repeat("\n", tokenLen))
	f.Add(token.String()[:tokenLen-1] + "_")
	f.Fuzz(func(t *testing.T, value string) {
		parsed, ok := parseToken(value)
		if ok && parsed.String() != value {
			t.Errorf("%q reads as the token of another string", value)
		}
		if s := serve(t, m, "__Host-session="+value); (s.ID != "") != (value == token.String()) {
			t.Errorf("%q opens %+v", value, s)
		}
	})
}

// FuzzRecord: whatever the store holds under a session's key reads as that session or as none,
// and never as an error or a part of a session.
func FuzzRecord(f *testing.F) {
	m, d, token := fuzzManager(f)
	key := token.key("")
	f.Add(0, []byte(`{"Name":"n","Items":[1],"Next":{}}`), true)
	f.Add(0, []byte(`{"Name":"n","Items":["x"]}`), true)
	f.Add(0, []byte(`{"Name":"n"`), true)
	f.Add(1, []byte(nil), true)
	f.Add(2, []byte(`null`), false)
	f.Add(-1, []byte(`{}`), true)
	f.Fuzz(func(t *testing.T, is int, data []byte, known bool) {
		e, err := d.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		e.Value = Record{Kind: kind(is), User: "u", Data: data}
		if known {
			e.Value.Token = token.hash()
		}
		if _, err := d.Replace(t.Context(), key, e.Value, e.Meta, e.Life, 1); err != nil {
			t.Fatal(err)
		}
		s := serve(t, m, "__Host-session="+token.String())
		var want fuzzData
		good := known && kind(is) == live && (len(data) == 0 || json.Unmarshal(data, &want) == nil)
		if (s.ID != "") != good {
			t.Errorf("session %+v, want one: %v", s, good)
		}
		if s.ID == "" && (s.Data.Name != "" || s.Data.Items != nil || s.Data.Next != nil) {
			t.Errorf("data without a session: %+v", s)
		}
	})
}
