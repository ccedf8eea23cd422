package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"

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
