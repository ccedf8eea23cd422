package frameworks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

type Data struct{}

func account(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "api") }

// store is a driver that can be taken down.
type store struct {
	driver.Driver[session.Record]
	down atomic.Bool
}

func (s *store) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	if s.down.Load() {
		return driver.Entry[session.Record]{}, errors.New("down")
	}
	return s.Driver.Get(ctx, key)
}

func TestFrameworks(t *testing.T) {
	for name, under := range map[string]func(*session.Manager[Data]) http.Handler{
		"chi": underChi, "echo": underEcho, "gin": underGin,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := memory.New[session.Record](nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			kept := &store{Driver: d}
			sessions, err := session.New[Data](kept, &session.Options{
				ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
					http.Error(w, "the store is down", http.StatusServiceUnavailable)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer sessions.Close(context.Background())
			server := httptest.NewTLSServer(under(sessions))
			defer server.Close()
			client := server.Client()
			client.Jar, _ = cookiejar.New(nil)
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			ask := func(path string, header ...string) (*http.Response, string) {
				t.Helper()
				req, err := http.NewRequest("GET", server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				return answer(t, client, req)
			}

			if res, _ := ask("/account", "Accept", "text/html"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/login") {
				t.Errorf("nobody: %d to %q", res.StatusCode, res.Header.Get("Location"))
			}
			if res, _ := ask("/api/account"); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("nobody on the API: %d", res.StatusCode)
			}
			login, err := http.NewRequest("POST", server.URL+"/login?next=%2Faccount", strings.NewReader(url.Values{"user": {"ann"}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, body := answer(t, client, login)
			if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
				t.Fatalf("login: %d %q, cookies %v", res.StatusCode, body, res.Cookies())
			}
			token := res.Cookies()[0].Value
			res, body = ask("/account")
			if body != "hello, ann" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Vary") != "Cookie" {
				t.Errorf("ann's account: %q %v", body, res.Header)
			}
			if res, _ := ask("/api/account"); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("a cookie on the API: %d", res.StatusCode)
			}
			if _, body := ask("/api/account", "Authorization", "Bearer "+token); body != "api" {
				t.Errorf("a token on the API: %q", body)
			}
			kept.down.Store(true)
			if res, body := ask("/account"); res.StatusCode != http.StatusServiceUnavailable || strings.TrimSpace(body) != "the store is down" {
				t.Errorf("store down: %d %q", res.StatusCode, body)
			}
		})
	}
}

// answer sends req and reads what comes.
func answer(t *testing.T, client *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestSnippets compares the README's snippets with the code that is tested here.
func TestSnippets(t *testing.T) {
	readme, err := os.ReadFile("../../../middleware/README.md")
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`(?s)\t//snippet \w+\n(.*?)\t//end\n`)
	for _, name := range []string{"chi", "echo", "gin"} {
		source, err := os.ReadFile(name + "_test.go")
		if err != nil {
			t.Fatal(err)
		}
		code := marked.FindStringSubmatch(string(source))
		if code == nil {
			t.Fatalf("no snippet in %s_test.go", name)
		}
		snippet := strings.TrimPrefix(strings.ReplaceAll("\n"+code[1], "\n\t", "\n"), "\n")
		if !strings.Contains(string(readme), "```go\n"+snippet+"```\n") {
			t.Errorf("the README's snippet for %s is not:\n%s", name, snippet)
		}
	}
}
