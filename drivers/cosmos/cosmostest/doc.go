// Package cosmostest runs an Azure Cosmos DB account for NoSQL inside a Go test. An
// unmodified azcosmos client uses it over loopback.
//
//	account := cosmostest.Start(t) // stops by itself
//	sessions := account.Container(t, azcosmos.ContainerProperties{DefaultTimeToLive: to.Ptr[int32](-1)})
//	account.Advance(31 * time.Minute)
//
// It checks signatures, keeps items with their etags, session tokens and time to live, by a
// clock that the test moves, answers the queries that its README names, says what each
// request is charged by a stated model, throttles, and fails as it is told to. Its README
// says where it differs from the service.
package cosmostest
