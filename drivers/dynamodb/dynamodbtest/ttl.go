package dynamodbtest

import (
	"context"
	"fmt"
	"os/exec"
)

// RunTTL starts a server whose streams report TTL deletions as DynamoDB's do. They are a
// REMOVE by the TTL service. Otherwise the server is like one of Run, but never that of
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
