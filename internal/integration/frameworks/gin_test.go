package frameworks

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
)

func underGin(sessions *session.Manager[Data]) http.Handler {
	//snippet gin
	router := gin.New()
	router.POST("/login", func(c *gin.Context) {
		// ... after the password was checked:
		if err := sessions.Login(c.Request.Context(), session.Login{User: c.PostForm("user")}, nil); err != nil {
			c.String(http.StatusServiceUnavailable, "please try again")
		}
	})
	router.GET("/account", func(c *gin.Context) {
		s, err := sessions.Get(c.Request.Context())
		switch {
		case err != nil: // answered by Options.ErrorHandler
		case s.User == "":
			c.Redirect(http.StatusSeeOther, "/login")
		default:
			c.String(http.StatusOK, "hello, "+s.User)
		}
	})
	// gin's own middleware cannot put a ResponseWriter around another, so the
	// sessions go around the router.
	mux := http.NewServeMux()
	mux.Handle("/", sessions.Middleware(router))
	mux.Handle("/api/", sessions.Over(session.Bearer{})(sessions.Require("")(api)))
	//end
	return mux
}

var api = http.HandlerFunc(account)

// TestGinStream: gin's Stream asks the ResponseWriter for CloseNotify, and panics without it.
func TestGinStream(t *testing.T) {
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	sessions, err := session.New[Data](d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sessions.Close(context.Background()) }()
	router := gin.New()
	router.GET("/events", func(c *gin.Context) {
		c.Stream(func(io.Writer) bool { c.SSEvent("message", "hello"); return false })
	})
	server := httptest.NewServer(sessions.Middleware(router))
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "hello") {
		t.Errorf("%s: %q, %v", answer.Status, body, err)
	}
}
