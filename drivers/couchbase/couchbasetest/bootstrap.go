package couchbasetest

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/xdg-go/scram"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/wire"
)

// supported are the features the node grants to a client that asks for them.
// Left out on purpose: TLS, cluster map notifications (the map never changes), reads
// from replicas, and documents created in the deleted state.
var supported = [256]bool{
	memd.FeatureTCPNoDelay:                   true,
	memd.FeatureSeqNo:                        true,
	memd.FeatureXattr:                        true,
	memd.FeatureXerror:                       true,
	memd.FeatureSelectBucket:                 true,
	memd.FeatureSnappy:                       true,
	memd.FeatureSnappyEverywhere:             true,
	memd.FeatureJSON:                         true,
	memd.FeatureUnorderedExec:                true,
	memd.FeatureAltRequests:                  true,
	memd.FeatureSyncReplication:              true,
	memd.FeatureCollections:                  true,
	memd.FeatureDurations:                    true,
	memd.FeaturePreserveExpiry:               true,
	memd.FeatureDedupeNotMyVbucketClustermap: true,
	memd.FeatureClusterMapKnownVersion:       true,
}

// hello negotiates features: those that the client wants and the node has. A second
// hello starts again, as on the server.
func (c *conn) hello(req *memd.Packet) error {
	if len(req.Value)%2 != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "features are 16 bits each")
	}
	c.features = [256]bool{}
	var granted []byte
	for i := 0; i < len(req.Value); i += 2 {
		f := binary.BigEndian.Uint16(req.Value[i:])
		if f >= uint16(len(supported)) || !supported[f] || c.features[f] {
			continue
		}
		c.features[f] = true
		granted = binary.BigEndian.AppendUint16(granted, f)
	}
	c.began = time.Time{} // this answer has no duration
	c.Negotiate(c.features[memd.FeatureCollections], c.features[memd.FeatureDurations])
	return c.reply(req, memd.StatusSuccess, 0, nil, granted, 0)
}

func (c *conn) noop(req *memd.Packet) error {
	return c.reply(req, memd.StatusSuccess, 0, nil, nil, 0)
}

func (c *conn) getErrorMap(req *memd.Packet) error {
	if len(req.Value) != 2 {
		return c.fail(req, memd.StatusInvalidArgs, "the version is 16 bits")
	}
	if binary.BigEndian.Uint16(req.Value) < wire.ErrorMapVersion {
		return c.fail(req, memd.StatusKeyNotFound, "no error map of that version")
	}
	return c.reply(req, memd.StatusSuccess, 0, nil, wire.ErrorMap(), memd.DatatypeFlagJSON)
}

func (c *conn) saslListMechs(req *memd.Packet) error {
	return c.reply(req, memd.StatusSuccess, 0, nil, []byte(strings.Join(saslMechanisms, " ")), 0)
}

// saslMechanisms are the server's, strongest first.
var saslMechanisms = []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"}

// scramIterations is far below what a server that guards anything would use: a client hashes its
// password as often for each connection.
const scramIterations = 64

// scramServers returns what checks logins with password, by mechanism. It does not look at the user, so that a
// login fails only at its end, as with a wrong password.
func scramServers(password string) (map[string]*scram.Server, error) {
	servers := map[string]*scram.Server{}
	for mechanism, h := range map[string]scram.HashGeneratorFcn{
		"SCRAM-SHA1": scram.SHA1, "SCRAM-SHA256": scram.SHA256, "SCRAM-SHA512": scram.SHA512,
	} {
		credentials := sync.OnceValues(func() (scram.StoredCredentials, error) {
			client, err := h.NewClientUnprepped("", password, "")
			if err != nil {
				return scram.StoredCredentials{}, err
			}
			return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: rand.Text(), Iters: scramIterations})
		})
		server, err := h.NewServer(func(string) (scram.StoredCredentials, error) { return credentials() })
		if err != nil {
			return nil, err
		}
		servers[mechanism] = server
	}
	return servers, nil
}

func (c *conn) saslAuth(req *memd.Packet) error {
	c.authed, c.login, c.bucket = false, nil, nil
	c.mechanism = string(req.Key)
	if c.mechanism == "PLAIN" {
		// authorisation identity, user and password, with a zero byte between.
		parts := bytes.SplitN(req.Value, []byte{0}, 3)
		if len(parts) != 3 {
			return c.fail(req, memd.StatusInvalidArgs, "PLAIN takes a user and a password")
		}
		return c.endLogin(req, equal(parts[1], c.node.username) && equal(parts[2], c.node.password), "")
	}
	server := c.node.logins[c.mechanism]
	if server == nil {
		return c.fail(req, memd.StatusAuthError, "unknown mechanism")
	}
	login := server.NewConversation()
	challenge, err := login.Step(string(req.Value))
	if err != nil {
		return c.fail(req, memd.StatusAuthError, err.Error())
	}
	c.login = login
	return c.reply(req, memd.StatusAuthContinue, 0, nil, []byte(challenge), 0)
}

// unescapeName undoes RFC 5802's escapes in a user's name, which package scram leaves there.
var unescapeName = strings.NewReplacer("=2C", ",", "=3D", "=")

func (c *conn) saslStep(req *memd.Packet) error {
	login := c.login
	c.login = nil
	if login == nil || c.mechanism != string(req.Key) {
		return c.fail(req, memd.StatusAuthError, "no login of that mechanism is under way")
	}
	signature, _ := login.Step(string(req.Value))
	return c.endLogin(req, login.Valid() && equal([]byte(unescapeName.Replace(login.Username())), c.node.username), signature)
}

func (c *conn) endLogin(req *memd.Packet, ok bool, answer string) error {
	if !ok {
		c.log.Warn("login refused")
		return c.fail(req, memd.StatusAuthError, "unknown user or wrong password")
	}
	c.authed = true
	return c.reply(req, memd.StatusSuccess, 0, nil, []byte(answer), 0)
}

func equal(got []byte, want string) bool {
	return subtle.ConstantTimeCompare(got, []byte(want)) == 1
}

func (c *conn) selectBucket(req *memd.Packet) error {
	b := c.node.bucket(string(req.Key))
	if b == nil {
		return c.fail(req, memd.StatusKeyNotFound, "no such bucket")
	}
	c.bucket = b
	return c.reply(req, memd.StatusSuccess, 0, nil, nil, 0)
}

// getClusterConfig answers with the selected bucket's config, or the cluster's if
// none is selected; with nothing if the client has the last one.
func (c *conn) getClusterConfig(req *memd.Packet) error {
	known := c.configRev
	switch len(req.Extras) {
	case 0:
	case 16:
		if binary.BigEndian.Uint64(req.Extras) == configEpoch {
			known = binary.BigEndian.Uint64(req.Extras[8:])
		}
		if known >= lastConfigRev {
			return c.reply(req, memd.StatusSuccess, 0, nil, nil, 0)
		}
	default:
		return c.fail(req, memd.StatusInvalidArgs, "the known version has 16 bytes")
	}
	c.configRev = min(known+1, lastConfigRev)
	config := c.node.clusterConfig(c.configRev)
	if c.bucket != nil {
		config = c.node.bucketConfig(c.bucket, c.configRev)
	}
	return c.reply(req, memd.StatusSuccess, 0, nil, config, memd.DatatypeFlagJSON)
}

func (c *conn) getManifest(req *memd.Packet) error {
	if c.bucket == nil {
		return c.fail(req, memd.StatusNoBucket, "no bucket selected")
	}
	return c.reply(req, memd.StatusSuccess, 0, nil, c.bucket.manifest.Load().json(), memd.DatatypeFlagJSON)
}

// getCollectionID looks up "scope.collection". An empty part means the default.
func (c *conn) getCollectionID(req *memd.Packet) error {
	if c.bucket == nil {
		return c.fail(req, memd.StatusNoBucket, "no bucket selected")
	}
	scopeName, name, ok := strings.Cut(string(req.Value), ".")
	if !ok || strings.Contains(name, ".") {
		return c.fail(req, memd.StatusInvalidArgs, "want a path of scope and collection")
	}
	m := c.bucket.manifest.Load()
	s := m.scope(orDefault(scopeName, defaultScope))
	if s == nil {
		return c.failUnknown(req, memd.StatusScopeUnknown, m)
	}
	col := s.collection(orDefault(name, defaultCollection))
	if col == nil {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	binary.BigEndian.PutUint64(c.extras[:], m.uid)
	binary.BigEndian.PutUint32(c.extras[8:], col.id)
	return c.reply(req, memd.StatusSuccess, 0, c.extras[:12], nil, 0)
}

// failUnknown answers, as the server does, with the manifest that lacks it.
func (c *conn) failUnknown(req *memd.Packet, status memd.StatusCode, m *manifest) error {
	return c.reply(req, status, 0, nil, fmt.Appendf(nil, `{"manifest_uid":"%x"}`, m.uid), memd.DatatypeFlagJSON)
}
