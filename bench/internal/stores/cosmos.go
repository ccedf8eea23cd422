package stores

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

var cosmosContenders = []contender{
	{name: bareName, open: bareDocuments(func(b *bareContainer) cosmosGet { return b.read })},
	{name: naiveName, open: bareDocuments(func(b *bareContainer) cosmosGet { return b.readThenTouch })},
	{name: atOnceName, open: bareDocuments(func(b *bareContainer) cosmosGet { return b.readAndTouch })},
	{name: exactName, open: ownDocuments(0)},
	{name: own1, open: ownDocuments(1)},
	{name: own10, open: ownDocuments(10)},
}

type cosmosGet func(ctx context.Context, key string) (session, error)

// Cosmos is the field of ways to read on Cosmos DB.
func Cosmos() runner.Suite {
	f := &field{
		suite:      "cosmos",
		title:      "Cosmos DB: reads that keep their item alive",
		contenders: cosmosContenders,
		full:       extent{4, 24, 512, [2]int{128, 512}},
		quick:      extent{1, 20, 128, [2]int{32, 128}},
		units:      true,
		text: `Items of about 500 bytes, %d for each contestant, in one container of cosmostest, an account that
holds what it has in memory; readers take the keys in turn. Units are the request units that it charges by
the model in its README. With slack no touch is due.`,
		targets: func(f *field, r *runner.Results) []runner.Figure {
			return []runner.Figure{
				f.throughput(r, bareName, 1, "vs-bare", 0.95),
				f.throughput(r, bareName, 16, "vs-bare", 0.95),
				f.allocs(r, 1.05),
			}
		},
	}
	return runner.Suite{
		Name:        f.suite,
		Contestants: []runner.Contestant{client(f.contenders)},
		Run: func(p runner.Plan) (runner.Report, error) {
			account, err := cosmostest.New(nil)
			if err != nil {
				return runner.Report{}, err
			}
			defer account.Close()
			address, err := makeContainer(account)
			if err != nil {
				return runner.Report{}, err
			}
			report, err := f.measure(p, address, nil)
			report.Figures = append(report.Figures, runner.Figure{
				Name:  "cosmos/touch/body-bytes",
				Value: float64(account.LongestBody(cosmostest.OpPatch)),
				Op:    "<=", Bound: 400,
			})
			return report, err
		},
	}
}

// makeContainer makes the container of all contenders, and returns the connection string.
func makeContainer(account *cosmostest.Account) (string, error) {
	address := fmt.Sprintf("AccountEndpoint=%s;AccountKey=%s;", account.Endpoint(), account.Key())
	container, d, err := openContainer(address)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	if _, err := container.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: databaseName}, nil); err != nil {
		return "", err
	}
	db, err := container.client.NewDatabase(databaseName)
	if err != nil {
		return "", err
	}
	_, err = db.CreateContainer(ctx, d.Properties(tableName), nil)
	return address, err
}

const databaseName = "bench"

// bareContainer is what a program does by itself.
type bareContainer struct {
	*azcosmos.ContainerClient
	client *azcosmos.Client
	bill
}

// openContainer returns a client that keeps its connections, and a driver of its own.
func openContainer(address string) (*bareContainer, *cosmos.Driver[session], error) {
	opts := &azcosmos.ClientOptions{}
	opts.Transport = keepsConnections()
	client, err := azcosmos.NewClientFromConnectionString(address, opts)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.NewContainer(databaseName, tableName)
	if err != nil {
		return nil, nil, err
	}
	d, err := cosmos.New[session](c, nil)
	return &bareContainer{ContainerClient: c, client: client}, d, err
}

// ownDocuments is slidingttl.
func ownDocuments(slackPercent time.Duration) func(context.Context, string) (way, error) {
	return func(_ context.Context, address string) (way, error) {
		_, d, err := openContainer(address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(slackPercent), nil)
		if err != nil {
			return way{}, err
		}
		return way{get: s.Get, put: insert(s), spent: func() spent {
			units, done := d.Stats(), s.Stats()
			return spent{
				writes:     float64(done.Touched) + float64(units.Refused),
				readUnits:  units.ReadUnits,
				writeUnits: units.TouchUnits,
			}
		}}, nil
	}
}

func bareDocuments(get func(*bareContainer) cosmosGet) func(context.Context, string) (way, error) {
	return func(_ context.Context, address string) (way, error) {
		b, d, err := openContainer(address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(10), nil)
		if err != nil {
			return way{}, err
		}
		return way{get: get(b), put: insert(s), spent: b.spent}, nil
	}
}

func (b *bareContainer) read(ctx context.Context, key string) (s session, err error) {
	res, err := b.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), key, nil)
	if err != nil {
		return s, err
	}
	b.add(spent{readUnits: float64(res.RequestCharge)})
	return s, json.Unmarshal(res.Value, &s)
}

// touch has Cosmos DB count the time to live anew, as any write does.
func (b *bareContainer) touch(ctx context.Context, key string, back bool) ([]byte, error) {
	var patch azcosmos.PatchOperations
	patch.AppendSet("/ttl", int(idleTimeout.Seconds()))
	res, err := b.PatchItem(ctx, azcosmos.NewPartitionKeyString(key), key, patch, &azcosmos.ItemOptions{EnableContentResponseOnWrite: back})
	if err != nil {
		return nil, err
	}
	b.add(spent{writes: 1, writeUnits: float64(res.RequestCharge)})
	return res.Value, nil
}

func (b *bareContainer) readThenTouch(ctx context.Context, key string) (session, error) {
	s, err := b.read(ctx, key)
	if err == nil {
		_, err = b.touch(ctx, key, false)
	}
	return s, err
}

func (b *bareContainer) readAndTouch(ctx context.Context, key string) (s session, err error) {
	value, err := b.touch(ctx, key, true)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(value, &s)
}
