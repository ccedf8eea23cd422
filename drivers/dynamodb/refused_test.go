package dynamodb

import (
	"net/http"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: a failure that no retry can help is ErrRefused. DynamoDB Local takes any
// credentials.
func TestErrRefused(t *testing.T) {
	for name, between := range map[string]fault{
		"no table": nil,
		"wrong key": func(_ string, req *request, _ sender) (*response, error) {
			return failure(req, http.StatusBadRequest, "UnrecognizedClientException"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, w := dynamodbtest.Start(t), newWire()
			w.between(between)
			d, err := New[drivertest.Value](w.client(server), server.Table(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			drivertest.RunRefused(t, d)
		})
	}
}
