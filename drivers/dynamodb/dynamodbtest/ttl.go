package dynamodbtest

import (
	"context"
	"fmt"
	"os/exec"
)

// RunTTL starts a server whose streams tell of what TTL has deleted as DynamoDB's do: as a
// REMOVE by the TTL service. It is otherwise as one that Run starts, but never the one of
// DYNAMODB_ENDPOINT.
func RunTTL(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	java, err := exec.LookPath("java")
	jar := findJar(ttlPattern)
	if err == nil && jar == "" {
		err = ErrNoJar
	}
	if err != nil {
		return nil, fmt.Errorf("dynamodbtest: %w for streams: get Java 17 (apt-get install openjdk-17-jre-headless) and the jar (npm ci in %s)", err, folder)
	}
	return launch(ctx, java, jar)
}
