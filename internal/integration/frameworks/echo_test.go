package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/slidingttl/slidingttl/middleware/session"
)

func underEcho(sessions *session.Manager[Data]) http.Handler {
	//snippet echo
	e := echo.New()
	e.Use(echo.WrapMiddleware(sessions.Middleware))
	e.POST("/login", func(c echo.Context) error {
		// ... after the password was checked:
		return sessions.Login(c.Request().Context(), session.Login{User: c.FormValue("user")}, nil)
	})
	e.GET("/account", func(c echo.Context) error {
		s, err := sessions.Get(c.Request().Context())
		if err != nil {
			return nil // answered by Options.ErrorHandler
		}
		return c.String(http.StatusOK, "hello, "+s.User)
	}, echo.WrapMiddleware(sessions.Require("/login")))
	api := e.Group("/api", echo.WrapMiddleware(sessions.Over(session.Bearer{})), echo.WrapMiddleware(sessions.Require("")))
	api.GET("/account", echo.WrapHandler(http.HandlerFunc(account)))
	//end
	return e
}
