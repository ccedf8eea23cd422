// Package cosmostest runs an Azure Cosmos DB account for NoSQL inside a Go test. An
// unmodified azcosmos client uses it over loopback.
//
//	account := cosmostest.Start(t) // stops by itself
//	sessions := account.Container(t, azcosmos.ContainerProperties{DefaultTimeToLive: to.Ptr[int32](-1)})
//	account.Advance(31 * time.Minute)
//
// The account checks signatures and keeps items with their etags, session tokens and time to
// live. The test moves its clock. It answers the queries listed in its README, charges each
// request by a stated model, throttles, and fails on demand. Its README says where it differs
// from the service.
package cosmostest
