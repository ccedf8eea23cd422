package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slidingttl/slidingttl/slidingttl"
)

type handle struct {
	Basket string `json:"basket" jsonschema:"the handle that basket_open returned"`
}

type item struct {
	handle
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
}

// Basket is the state behind a handle.
type Basket struct{ Items map[string]int }

var errGone = errors.New("no such basket: call basket_open")

// addTools gives server tools whose state is in store.
func addTools(server *mcp.Server, store *slidingttl.Store[Basket]) {
	// key returns the key of a handle's record. With another principal's handle it is that of no record.
	key := func(req *mcp.CallToolRequest, h handle) string {
		mac := hmac.New(sha256.New, []byte(h.Basket))
		mac.Write([]byte(req.Extra.TokenInfo.UserID)) // auth.RequireBearerToken has set it
		return "basket:" + hex.EncodeToString(mac.Sum(nil))
	}
	result := func(b Basket, err error) (*mcp.CallToolResult, Basket, error) {
		if errors.Is(err, slidingttl.ErrNotFound) {
			err = errGone // it has ended, or is another principal's
		}
		return nil, b, err
	}
	mcp.AddTool(server, &mcp.Tool{Name: "basket_open"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, handle, error) {
		h := handle{rand.Text()}
		return nil, h, store.Insert(ctx, key(req, h), Basket{map[string]int{}})
	})
	mcp.AddTool(server, &mcp.Tool{Name: "basket_read"}, func(ctx context.Context, req *mcp.CallToolRequest, h handle) (*mcp.CallToolResult, Basket, error) {
		return result(store.Get(ctx, key(req, h)))
	})
	mcp.AddTool(server, &mcp.Tool{Name: "basket_put"}, func(ctx context.Context, req *mcp.CallToolRequest, i item) (*mcp.CallToolResult, Basket, error) {
		return result(store.Update(ctx, key(req, i.handle), func(b Basket) (Basket, error) {
			b.Items = maps.Clone(b.Items)
			b.Items[i.Item] = i.Quantity // so that a call that is made again changes nothing
			return b, nil
		}))
	})
}
