package dynamodb

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
)

// The tables of the README's CloudFormation and Terraform are such that Check finds nothing wrong.
func TestREADME(t *testing.T) {
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	server := dynamodbtest.Start(t)
	for language, patterns := range map[string][3]string{ // of key, its type, and the TTL's attribute
		"yaml": {`KeySchema: \[\{ AttributeName: (\w+), KeyType: HASH \}\]`, `AttributeType: (\w)`, `TimeToLiveSpecification: \{ AttributeName: (\w+), Enabled: true \}`},
		"hcl":  {`hash_key += "(\w+)"`, `type = "(\w)"`, `attribute_name = "(\w+)"\n +enabled += true`},
	} {
		_, text, _ := strings.Cut(string(content), "```"+language+"\n")
		text, _, _ = strings.Cut(text, "```")
		var found [3]string
		for i, pattern := range patterns {
			m := regexp.MustCompile(pattern).FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("the %s has no %s", language, pattern)
			}
			found[i] = m[1]
		}
		client, name := server.Client(), server.Table(t)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: &found[0], KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &found[0], AttributeType: types.ScalarAttributeType(found[1])}},
		})
		if err != nil {
			t.Fatal(err)
		}
		enabled := true
		_, err = client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &found[2], Enabled: &enabled},
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := New[session](client, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(t.Context(), time.Hour); err != nil {
			t.Errorf("%s: %v", language, err)
		}
	}
}
