package cosmos

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Client has the methods of *azcosmos.ContainerClient that the driver calls. It must be safe for
// concurrent use. The application configures it: credentials, regions, retries, timeouts.
type Client interface {
	ReadItem(context.Context, azcosmos.PartitionKey, string, *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	CreateItem(context.Context, azcosmos.PartitionKey, []byte, *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	ReplaceItem(context.Context, azcosmos.PartitionKey, string, []byte, *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	PatchItem(context.Context, azcosmos.PartitionKey, string, azcosmos.PatchOperations, *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	DeleteItem(context.Context, azcosmos.PartitionKey, string, *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)

	// For GetMulti.
	ReadManyItems(context.Context, []azcosmos.ItemIdentity, *azcosmos.ReadManyItemsOptions) (azcosmos.ReadManyItemsResponse, error)

	// For Scan.
	NewQueryItemsPager(string, azcosmos.PartitionKey, *azcosmos.QueryOptions) *runtime.Pager[azcosmos.QueryItemsResponse]

	// For Check.
	Read(context.Context, *azcosmos.ReadContainerOptions) (azcosmos.ContainerResponse, error)
}

var _ Client = (*azcosmos.ContainerClient)(nil)
