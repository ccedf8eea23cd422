package couchbasetest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/golang/snappy"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// rawClient speaks the protocol packet by packet, to send what gocb never sends.
type rawClient struct {
	t    *testing.T
	nc   net.Conn
	conn *memd.Conn
}

func dialRaw(t *testing.T, node *couchbasetest.Node) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(node.ConnectionString(), "couchbase://"))
	must(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	must(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &rawClient{t, nc, memd.NewConn(nc)}
}

// ready returns a client that has negotiated features, logged in and selected the
// bucket.
func ready(t *testing.T, node *couchbasetest.Node, features ...memd.HelloFeature) *rawClient {
	t.Helper()
	r := dialRaw(t, node)
	r.hello(features...)
	r.login(node)
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdSelectBucket, Key: []byte(node.Bucket())})
	return r
}

func (r *rawClient) hello(features ...memd.HelloFeature) {
	r.t.Helper()
	var value []byte
	for _, f := range features {
		value = binary.BigEndian.AppendUint16(value, uint16(f))
	}
	res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdHello, Key: []byte("test"), Value: value})
	for b := res.Value; len(b) > 0; b = b[2:] {
		r.conn.EnableFeature(memd.HelloFeature(binary.BigEndian.Uint16(b)))
	}
}

func (r *rawClient) login(node *couchbasetest.Node) {
	r.t.Helper()
	r.want(memd.StatusSuccess, memd.Packet{
		Command: memd.CmdSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + node.Username() + "\x00" + node.Password()),
	})
}

func (r *rawClient) send(p memd.Packet) {
	r.t.Helper()
	p.Magic = memd.CmdMagicReq
	must(r.t, r.conn.WritePacket(&p))
}

func (r *rawClient) receive() *memd.Packet {
	r.t.Helper()
	p, _, err := r.conn.ReadPacket()
	must(r.t, err)
	return p
}

func (r *rawClient) want(status memd.StatusCode, p memd.Packet) *memd.Packet {
	r.t.Helper()
	r.send(p)
	res := r.receive()
	if res.Status != status || res.Opaque != p.Opaque || res.Command != p.Command {
		r.t.Fatalf("%s: status %#x (%s), want %#x: %s", p.Command.Name(), uint16(res.Status), res.Status, uint16(status), res.Value)
	}
	return res
}

var allFeatures = []memd.HelloFeature{
	memd.FeatureXattr, memd.FeatureXerror, memd.FeatureJSON, memd.FeatureSeqNo, memd.FeatureCollections,
	memd.FeatureAltRequests, memd.FeatureSyncReplication, memd.FeaturePreserveExpiry, memd.FeatureSelectBucket,
	memd.FeatureClusterMapKnownVersion,
}

func storeExtras(flags, expiry uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, flags), expiry)
}

func set(key, value string) memd.Packet {
	return memd.Packet{Command: memd.CmdSet, Key: []byte(key), Value: []byte(value), Extras: storeExtras(0, 0)}
}

func TestFeaturesAreNegotiated(t *testing.T) {
	node := couchbasetest.Start(t)
	r := dialRaw(t, node)
	res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdHello, Value: []byte{
		0, byte(memd.FeatureTLS), 0, byte(memd.FeatureXattr), 0, byte(memd.FeatureXattr),
		0, byte(memd.FeatureCreateAsDeleted), 0xff, 0xff, 0, byte(memd.FeatureJSON),
	}})
	if want := []byte{0, byte(memd.FeatureXattr), 0, byte(memd.FeatureJSON)}; !bytes.Equal(res.Value, want) {
		t.Errorf("granted %x, want %x", res.Value, want)
	}
	r.want(memd.StatusInvalidArgs, memd.Packet{Command: memd.CmdHello, Value: []byte{0}})
}

// A client that asked for it gets its request's duration at the server, which does not
// include SetLatency.
func TestServerDuration(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, append(allFeatures, memd.FeatureDurations)...)
	const latency = 50 * time.Millisecond
	var added time.Duration
	for _, p := range []memd.Packet{
		set("k", "1"),
		{Command: memd.CmdGet, Key: []byte("k")},
		{Command: memd.CmdStat},
	} {
		began := time.Now()
		r.send(p)
		res := r.receive()
		if res.ServerDurationFrame == nil {
			t.Fatalf("%s: no duration", p.Command.Name())
		}
		// The latency comes on top, however long the rest takes.
		if rest := time.Since(began) - res.ServerDurationFrame.ServerDuration; rest < added {
			t.Errorf("%s: %v more than the server's duration of %v; want at least %v", p.Command.Name(), rest, res.ServerDurationFrame.ServerDuration, added)
		}
		node.SetLatency(latency)
		added = latency
	}
	r.hello(allFeatures...) // again, without
	if res := r.want(memd.StatusSuccess, set("k", "1")); res.ServerDurationFrame != nil {
		t.Errorf("a duration that nobody asked for: %+v", res.ServerDurationFrame)
	}
}

func TestOrderOfBootstrap(t *testing.T) {
	node := couchbasetest.Start(t)
	r := dialRaw(t, node)
	get := memd.Packet{Command: memd.CmdGet, Key: []byte("k")}
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdNoop})
	r.want(memd.StatusAccessError, get)
	r.want(memd.StatusAccessError, memd.Packet{Command: memd.CmdSelectBucket, Key: []byte(node.Bucket())})
	r.want(memd.StatusAccessError, memd.Packet{Command: memd.CmdGetClusterConfig})
	mechs := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdSASLListMechs})
	if got, want := string(mechs.Value), "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN"; got != want {
		t.Errorf("mechanisms %q, want %q", got, want)
	}
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("GSSAPI")})
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00a\x00b")})
	r.want(memd.StatusInvalidArgs, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("PLAIN"), Value: []byte("ab")})
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLStep, Key: []byte("SCRAM-SHA1"), Value: []byte("c=biws,r=x,p=eA==")})
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("SCRAM-SHA1"), Value: []byte("nonsense")})
	r.want(memd.StatusAuthContinue, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("SCRAM-SHA1"), Value: []byte("n,,n=Administrator,r=x")})
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLStep, Key: []byte("SCRAM-SHA1"), Value: []byte("c=biws,r=x,p=eA==")})
	r.want(memd.StatusAccessError, get)
	r.login(node)
	r.want(memd.StatusNoBucket, get)
	r.want(memd.StatusNoBucket, memd.Packet{Command: memd.CmdCollectionsGetManifest})
	r.want(memd.StatusNoBucket, memd.Packet{Command: memd.CmdCollectionsGetID, Value: []byte("_default._default")})
	r.want(memd.StatusKeyNotFound, memd.Packet{Command: memd.CmdSelectBucket, Key: []byte("missing")})
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdSelectBucket, Key: []byte(node.Bucket())})
	r.want(memd.StatusKeyNotFound, get)
	// A failed login ends the former one.
	r.want(memd.StatusAuthError, memd.Packet{Command: memd.CmdSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00a\x00b")})
	r.want(memd.StatusAccessError, get)
}

func TestClusterConfig(t *testing.T) {
	node := couchbasetest.Start(t)
	r := dialRaw(t, node)
	r.hello(allFeatures...)
	r.login(node)
	config := func() (c struct {
		Name     string
		Rev      uint64
		RevEpoch uint64
		NodesExt []struct{ Services map[string]int }
	}) {
		t.Helper()
		must(t, json.Unmarshal(r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGetClusterConfig}).Value, &c))
		return c
	}
	if c := config(); c.Name != "" || len(c.NodesExt) != 1 || c.NodesExt[0].Services["mgmt"] == 0 || c.NodesExt[0].Services["kv"] == 0 {
		t.Errorf("the cluster's config: %+v", c)
	}
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdSelectBucket, Key: []byte(node.Bucket())})
	// The same config has three revisions, see config.go.
	var c = config()
	for want := uint64(2); want <= 3; c, want = config(), want+1 {
		if c.Name != node.Bucket() || len(c.NodesExt) != 1 || c.Rev != want {
			t.Errorf("the bucket's config: %+v, want revision %d", c, want)
		}
	}
	if c.Rev != 3 {
		t.Errorf("revision %d after the last", c.Rev)
	}
	known := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.RevEpoch), c.Rev)
	if res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGetClusterConfig, Extras: known}); len(res.Value) != 0 {
		t.Errorf("a client that has the config got it again")
	}
	r.want(memd.StatusInvalidArgs, memd.Packet{Command: memd.CmdGetClusterConfig, Extras: known[:8]})
	if res := r.want(memd.StatusNotMyVBucket, memd.Packet{Command: memd.CmdGet, Key: []byte("k"), Vbucket: 4711}); len(res.Value) == 0 {
		t.Error("no config for a client with a wrong one")
	}
}

func TestErrorMap(t *testing.T) {
	node := couchbasetest.Start(t)
	r := dialRaw(t, node)
	var m struct {
		Version int
		Errors  map[string]struct {
			Name  string
			Attrs []string
		}
	}
	must(t, json.Unmarshal(r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGetErrorMap, Value: []byte{0, 2}}).Value, &m))
	if m.Version != 2 || m.Errors["86"].Name != "ETMPFAIL" || m.Errors["1"].Name != "KEY_ENOENT" {
		t.Errorf("map %+v", m)
	}
	r.want(memd.StatusKeyNotFound, memd.Packet{Command: memd.CmdGetErrorMap, Value: []byte{0, 1}})
	r.want(memd.StatusInvalidArgs, memd.Packet{Command: memd.CmdGetErrorMap})
}

func TestCollectionIDs(t *testing.T) {
	node := couchbasetest.Start(t)
	must(t, node.AddCollection(node.Bucket(), "s", "c", &couchbasetest.CollectionOptions{MaxTTL: time.Minute}))
	r := ready(t, node, allFeatures...)
	id := func(path string) memd.Packet {
		return memd.Packet{Command: memd.CmdCollectionsGetID, Value: []byte(path)}
	}
	for _, path := range []string{"_default._default", "."} {
		if res := r.want(memd.StatusSuccess, id(path)); binary.BigEndian.Uint32(res.Extras[8:]) != 0 {
			t.Errorf("id of %s: %x", path, res.Extras)
		}
	}
	res := r.want(memd.StatusSuccess, id("s.c"))
	cid := binary.BigEndian.Uint32(res.Extras[8:])
	if cid < 8 {
		t.Errorf("id %d is reserved", cid)
	}
	for path, status := range map[string]memd.StatusCode{
		"missing.c": memd.StatusScopeUnknown, "s.missing": memd.StatusCollectionUnknown,
		"s": memd.StatusInvalidArgs, "s.c.d": memd.StatusInvalidArgs,
	} {
		r.want(status, id(path))
	}
	p := set("k", "1")
	p.CollectionID = cid
	r.want(memd.StatusSuccess, p)
	p.CollectionID = 4711
	if res := r.want(memd.StatusCollectionUnknown, p); string(res.Value) != `{"manifest_uid":"1"}` {
		t.Errorf("unknown collection: %s", res.Value)
	}
	var m struct {
		Scopes []struct {
			Name        string
			Collections []struct {
				Name   string
				MaxTTL int
			}
		}
	}
	must(t, json.Unmarshal(r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdCollectionsGetManifest}).Value, &m))
	if len(m.Scopes) != 2 || m.Scopes[1].Collections[0].MaxTTL != 60 {
		t.Errorf("manifest %+v", m)
	}
}

func TestUnknownCommands(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, allFeatures...)
	for _, op := range []memd.CmdCode{
		memd.CmdStat, memd.CmdGetReplica, memd.CmdObserveSeqNo, memd.CmdSetMeta, memd.CmdSubDocGet, memd.CmdSubDocDictSet,
		memd.CmdDcpOpenConnection, memd.CmdGetAllVBSeqnos, memd.CmdGetRandom, 0x42, 0xff,
	} {
		res := r.want(memd.StatusUnknownCommand, memd.Packet{Command: op, Opaque: uint32(op) << 8, Value: []byte("some value")})
		if !bytes.Contains(res.Value, []byte("couchbasetest does not know")) {
			t.Errorf("%s: context %q", op.Name(), res.Value)
		}
	}
	// Our own codec refuses to write this one, and the node's to read it.
	observe := make([]byte, 24+4)
	observe[0], observe[1], observe[11] = 0x80, byte(memd.CmdObserve), 4
	_, err := r.nc.Write(observe)
	must(t, err)
	header := make([]byte, 24)
	_, err = io.ReadFull(r.nc, header)
	must(t, err)
	if status := binary.BigEndian.Uint16(header[6:]); memd.StatusCode(status) != memd.StatusUnknownCommand {
		t.Errorf("observe: status %#x", status)
	}
	_, err = io.CopyN(io.Discard, r.nc, int64(binary.BigEndian.Uint32(header[8:])))
	must(t, err)
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdNoop})
}

func TestInvalidRequests(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, allFeatures...)
	r.want(memd.StatusSuccess, set("k", `{"a":1}`))
	before := node.Counts()

	key, four, eight := []byte("k"), make([]byte, 4), make([]byte, 8)
	spec := func(op memd.SubDocOpType, flags memd.SubdocFlag, path, value string) []byte {
		b := []byte{byte(op), byte(flags), 0, byte(len(path)), 0, 0, 0, byte(len(value))}
		return append(append(b, path...), value...)
	}
	mutate := func(docFlags memd.SubdocDocFlag, specs ...[]byte) memd.Packet {
		return memd.Packet{Command: memd.CmdSubDocMultiMutation, Key: key, Extras: []byte{byte(docFlags)}, Value: bytes.Join(specs, nil)}
	}
	lookup := func(value ...byte) memd.Packet {
		return memd.Packet{Command: memd.CmdSubDocMultiLookup, Key: key, Value: value}
	}
	withCAS := func(p memd.Packet) memd.Packet { p.Cas = 1; return p }
	dictSet, setDoc, xattr := memd.SubDocOpDictSet, memd.SubDocOpSetDoc, memd.SubdocFlagXattrPath

	for _, tt := range []struct {
		name string
		p    memd.Packet
		want memd.StatusCode
	}{
		{"get without a key", memd.Packet{Command: memd.CmdGet}, memd.StatusInvalidArgs},
		{"get with a value", memd.Packet{Command: memd.CmdGet, Key: key, Value: key}, memd.StatusInvalidArgs},
		{"get with extras", memd.Packet{Command: memd.CmdGet, Key: key, Extras: four}, memd.StatusInvalidArgs},
		{"get with a CAS", memd.Packet{Command: memd.CmdGet, Key: key, Cas: 1}, memd.StatusInvalidArgs},
		{"a key of 251 bytes", memd.Packet{Command: memd.CmdGet, Key: bytes.Repeat(key, 251)}, memd.StatusInvalidArgs},
		{"touch without an expiry", memd.Packet{Command: memd.CmdTouch, Key: key}, memd.StatusInvalidArgs},
		{"get-and-touch with too much", memd.Packet{Command: memd.CmdGAT, Key: key, Extras: eight}, memd.StatusInvalidArgs},
		{"get-and-lock with too much", memd.Packet{Command: memd.CmdGetLocked, Key: key, Extras: eight}, memd.StatusInvalidArgs},
		{"unlock without a CAS", memd.Packet{Command: memd.CmdUnlockKey, Key: key}, memd.StatusInvalidArgs},
		{"set without extras", memd.Packet{Command: memd.CmdSet, Key: key}, memd.StatusInvalidArgs},
		{"add with a CAS", memd.Packet{Command: memd.CmdAdd, Key: key, Extras: eight, Cas: 1}, memd.StatusInvalidArgs},
		{"delete with a value", memd.Packet{Command: memd.CmdDelete, Key: key, Value: key}, memd.StatusInvalidArgs},
		{"get-meta with too much", memd.Packet{Command: memd.CmdGetMeta, Key: key, Extras: four}, memd.StatusInvalidArgs},
		{"a datatype that is not negotiated", memd.Packet{Command: memd.CmdSet, Key: key, Extras: eight, Datatype: 2}, memd.StatusInvalidArgs},
		{"a datatype where none can be", memd.Packet{Command: memd.CmdGet, Key: key, Datatype: 1}, memd.StatusInvalidArgs},
		{"durability of a touch", memd.Packet{Command: memd.CmdTouch, Key: key, Extras: four, DurabilityLevelFrame: &memd.DurabilityLevelFrame{DurabilityLevel: 1}}, memd.StatusNotSupported},
		{"a durability level that is none", memd.Packet{Command: memd.CmdDelete, Key: key, DurabilityLevelFrame: &memd.DurabilityLevelFrame{DurabilityLevel: 9}}, memd.StatusDurabilityInvalidLevel},
		{"add that preserves the expiry", memd.Packet{Command: memd.CmdAdd, Key: key, Extras: eight, PreserveExpiryFrame: &memd.PreserveExpiryFrame{}}, memd.StatusNotSupported},
		{"impersonation", memd.Packet{Command: memd.CmdGet, Key: key, UserImpersonationFrame: &memd.UserImpersonationFrame{User: key}}, memd.StatusNotSupported},
		{"a stream id", memd.Packet{Command: memd.CmdGet, Key: key, StreamIDFrame: &memd.StreamIDFrame{}}, memd.StatusInvalidArgs},
		{"framing extras of the future", memd.Packet{Command: memd.CmdGet, Key: key, UnsupportedFrames: []memd.UnsupportedFrame{{Type: 11}}}, 0x80},
		{"an expiry beyond 2106", memd.Packet{Command: memd.CmdTouch, Key: key, Extras: []byte{0, 0, 0x10, 0}}, 0x28},

		{"no lookups", lookup(), memd.StatusSubDocBadCombo},
		{"half a lookup", lookup(byte(memd.SubDocOpGet), 0, 0), memd.StatusInvalidArgs},
		{"a lookup shorter than its path", lookup(byte(memd.SubDocOpGet), 0, 0, 9, 'a'), memd.StatusInvalidArgs},
		{"a lookup without a path", lookup(byte(memd.SubDocOpGet), 0, 0, 0), memd.StatusInvalidArgs},
		{"a document with a path", lookup(byte(memd.SubDocOpGetDoc), 0, 0, 1, 'a'), memd.StatusInvalidArgs},
		{"a mutation among lookups", lookup(byte(dictSet), 0, 0, 1, 'a'), memd.StatusSubDocBadCombo},
		{"an operation that is none", lookup(0x42, 0, 0, 1, 'a'), memd.StatusSubDocBadCombo},
		{"a lookup with unknown flags", lookup(byte(memd.SubDocOpGet), 0x40, 0, 1, 'a'), memd.StatusInvalidArgs},
		{"a binary attribute", lookup(byte(memd.SubDocOpGet), 0x24, 0, 1, 'a'), memd.StatusNotSupported},
		{"attributes after the body", lookup(byte(memd.SubDocOpGet), 0, 0, 1, 'a', byte(memd.SubDocOpGet), 4, 0, 1, 'a'), 0xd4},
		{"17 lookups", lookup(bytes.Repeat([]byte{byte(memd.SubDocOpGet), 0, 0, 1, 'a'}, 17)...), memd.StatusSubDocBadCombo},
		{"a lookup with other extras", memd.Packet{Command: memd.CmdSubDocMultiLookup, Key: key, Extras: four, Value: []byte{byte(memd.SubDocOpGetDoc), 0, 0, 0}}, memd.StatusInvalidArgs},

		{"a mutation cut short", mutate(0, spec(dictSet, 0, "a", "1")[:9]), memd.StatusInvalidArgs},
		{"a lookup among mutations", mutate(0, spec(memd.SubDocOpGet, 0, "a", "")), memd.StatusSubDocBadCombo},
		{"add of the whole document", mutate(memd.SubdocDocFlagAddDoc, spec(memd.SubDocOpAddDoc, 0, "", "1")), memd.StatusSubDocBadCombo},
		{"set and add", mutate(3, spec(dictSet, 0, "a", "1")), memd.StatusInvalidArgs},
		{"add with a CAS", withCAS(mutate(memd.SubdocDocFlagAddDoc, spec(dictSet, 0, "a", "1"))), memd.StatusInvalidArgs},
		{"remove in what may create", mutate(memd.SubdocDocFlagMkDoc, spec(memd.SubDocOpDelete, 0, "a", "")), memd.StatusInvalidArgs},
		{"access deleted", mutate(memd.SubdocDocFlagAccessDeleted, spec(dictSet, xattr, "a", "1")), memd.StatusNotSupported},
		{"create as deleted", mutate(memd.SubdocDocFlagCreateAsDeleted|memd.SubdocDocFlagAddDoc, spec(dictSet, xattr, "a", "1")), memd.StatusNotSupported},
		{"revive", mutate(memd.SubdocDocFlagReviveDocument, spec(dictSet, xattr, "a", "1")), memd.StatusNotSupported},
		{"document flags of the future", mutate(0x40, spec(dictSet, 0, "a", "1")), memd.StatusInvalidArgs},
		{"a value that must not be", mutate(0, spec(memd.SubDocOpDelete, 0, "a", "1")), memd.StatusInvalidArgs},
		{"a value that is missing", mutate(0, spec(setDoc, 0, "", "")), memd.StatusInvalidArgs},
		{"more after the removal", mutate(0, spec(memd.SubDocOpDeleteDoc, 0, "", ""), spec(dictSet, 0, "a", "1")), memd.StatusSubDocBadCombo},
		{"the removal after more", mutate(0, spec(dictSet, 0, "a", "1"), spec(memd.SubDocOpDeleteDoc, 0, "", "")), memd.StatusSubDocBadCombo},
		{"a macro in the body", mutate(0, spec(dictSet, memd.SubdocFlagExpandMacros, "a", `"${Mutation.CAS}"`)), memd.StatusSubDocXattrInvalidFlagCombo},
		{"an unknown macro", mutate(0, spec(dictSet, xattr|memd.SubdocFlagExpandMacros, "a", `"${Nothing}"`)), memd.StatusSubDocXattrUnknownMacro},
		{"a virtual attribute", mutate(0, spec(dictSet, xattr, "$document.CAS", "1")), memd.StatusSubDocXattrCannotModifyVAttr},
		{"extras that mean nothing", memd.Packet{Command: memd.CmdSubDocMultiMutation, Key: key, Extras: make([]byte, 3), Value: spec(dictSet, 0, "a", "1")}, memd.StatusInvalidArgs},
		{"an expiry beyond 2106 in a mutation", memd.Packet{Command: memd.CmdSubDocMultiMutation, Key: key, Extras: []byte{0, 0, 0x10, 0}, Value: spec(dictSet, 0, "a", "1")}, 0x28},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == 0x28 {
				node.SetTime(time.Date(2106, 2, 7, 6, 0, 0, 0, time.UTC))
				defer node.SetTime(time.Time{})
			}
			r.t = t
			r.want(tt.want, tt.p)
		})
	}
	r.t = t
	if got := node.Counts().Since(before).Mutations; got != 0 {
		t.Errorf("%d mutations by requests that were refused", got)
	}
	if res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGet, Key: key}); string(res.Value) != `{"a":1}` {
		t.Errorf("document %s", res.Value)
	}
}

func TestWithoutFeatures(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node)
	if res := r.want(memd.StatusSuccess, set("k", `{"a":1}`)); len(res.Extras) != 0 {
		t.Errorf("a mutation token that was not asked for: %x", res.Extras)
	}
	if res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGet, Key: []byte("k")}); res.Datatype != 0 || len(res.Key) != 0 {
		t.Errorf("datatype %#x, key %q", res.Datatype, res.Key)
	}
	if res := r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGetMeta, Key: []byte("k")}); len(res.Extras) != 20 {
		t.Errorf("get-meta without a version has %d bytes of extras", len(res.Extras))
	}
	r.want(memd.StatusNotSupported, memd.Packet{
		Command: memd.CmdSubDocMultiLookup, Key: []byte("k"), Value: []byte{byte(memd.SubDocOpGet), 4, 0, 1, 'a'},
	})
	// Without extended errors a lock is a temporary failure.
	r.want(memd.StatusSuccess, memd.Packet{Command: memd.CmdGetLocked, Key: []byte("k")})
	if res := r.want(memd.StatusTmpFail, set("k", "2")); len(res.Value) != 0 {
		t.Errorf("a text that was not asked for: %s", res.Value)
	}
}

func TestTooLargeOnTheWire(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, append(allFeatures, memd.FeatureSnappy)...)
	big := set("k", strings.Repeat("x", 20<<20+1))
	r.want(memd.StatusTooBig, big)
	packed := big
	packed.Value, packed.Datatype = snappy.Encode(nil, big.Value), uint8(memd.DatatypeFlagCompressed)
	r.want(memd.StatusTooBig, packed)
	packed.Value = []byte("not snappy")
	r.want(memd.StatusInvalidArgs, packed)
	r.want(memd.StatusSuccess, set("k", strings.Repeat("x", 20<<20)))
	mutation := []byte{byte(memd.SubDocOpDictSet), byte(memd.SubdocFlagXattrPath), 0, 1, 0, 0, 0, 1, 'a', '1'}
	r.want(memd.StatusTooBig, memd.Packet{Command: memd.CmdSubDocMultiMutation, Key: []byte("k"), Value: mutation})
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		node := couchbasetest.Start(t)
		r := ready(t, node, allFeatures...)
		node.SetLatency(latency)
		const n = 3000 // more than a connection can delay
		go func() {
			for i := range n {
				p := memd.Packet{Magic: memd.CmdMagicReq, Command: memd.CmdNoop, Opaque: uint32(i)}
				if err := r.conn.WritePacket(&p); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for i := range n {
			if got := r.receive().Opaque; got != uint32(i) {
				t.Fatalf("answer %d is to request %d", i, got)
			}
		}
	}
}

func TestMalformedPacketsEndTheirConnectionOnly(t *testing.T) {
	var log syncBuffer
	node, err := couchbasetest.New(&couchbasetest.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	t.Cleanup(func() { must(t, node.Close()) })
	good := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()

	header := func(magic, op byte, keyLen uint16, extras byte, body uint32, rest ...byte) []byte {
		b := make([]byte, 24)
		b[0], b[1], b[4] = magic, op, extras
		binary.BigEndian.PutUint16(b[2:], keyLen)
		binary.BigEndian.PutUint32(b[8:], body)
		return append(b, rest...)
	}
	for _, tt := range []struct {
		name   string
		packet []byte
		say    string
	}{
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: secret-key\r\n\r\n"), "magic"},
		{"an answer", header(0x81, 0, 0, 0, 0), "magic"},
		{"an answer with frames", header(0x18, 0, 0, 0, 0), "magic"},
		{"four gigabytes", header(0x80, 1, 0, 0, 0xffffffff), "at most"},
		{"a key longer than the body", header(0x80, 0, 10, 0, 3, 'k', 'e', 'y'), "in a body of 3"},
		{"extras longer than the body", header(0x80, 1, 0, 20, 3, 'k', 'e', 'y'), "in a body of 3"},
		{"frames longer than the body", header(0x08, 0, 0x0900, 0, 3, 'k', 'e', 'y'), "in a body of 3"},
		{"a frame longer than the frames", header(0x08, 0, 0x0101, 0, 2, 0x1f, 'k'), "cut short"},
		{"a frame without its length", header(0x08, 0, 0x0200, 0, 2, 0xff, 0), "cut short"},
		{"a collection id that does not end", header(0x80, 0, 3, 0, 3, 0xff, 0xff, 0xff), "encoded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log.Reset()
			bad := ready(t, node, allFeatures...)
			_, err := bad.nc.Write(tt.packet)
			must(t, err)
			if _, err := bad.nc.Read(make([]byte, 1)); err == nil {
				t.Error("the connection goes on")
			}
			_, err = good.Upsert("k", 1, nil)
			must(t, err)
			if got := log.String(); !strings.Contains(got, "malformed packet") || !strings.Contains(got, tt.say) {
				t.Errorf("log %q does not say %q", got, tt.say)
			}
			if got := log.String(); strings.Contains(got, "secret") {
				t.Errorf("log %q has the key", got)
			}
		})
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// A client whose connection is dropped reads its end, even if it has sent more than the node
// read. A reset would leave gocbcore's goroutines without order for the race detector.
func TestDropIsNoReset(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node)
	node.Between(func(couchbasetest.Op, func()) couchbasetest.Fault {
		r.send(memd.Packet{Command: memd.CmdNoop})
		return couchbasetest.Fault{Drop: true}
	})
	r.send(set("k", "v"))
	if _, _, err := r.conn.ReadPacket(); !errors.Is(err, io.EOF) {
		t.Errorf("read %v, want io.EOF", err)
	}
}

func TestCloseWithClientsConnected(t *testing.T) {
	node, err := couchbasetest.New(nil)
	must(t, err)
	r := ready(t, node)
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	must(t, err)
	defer func() { must(t, cluster.Close(nil)) }()
	must(t, cluster.WaitUntilReady(time.Minute, management))
	must(t, cluster.Bucket(node.Bucket()).WaitUntilReady(time.Minute, nil))
	_, err = cluster.Buckets().GetBucket(node.Bucket(), nil) // leaves an idle connection
	must(t, err)
	must(t, node.Close())
	if n, err := r.nc.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from a closed node", n)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(node.ConnectionString(), "couchbase://")); err == nil {
		t.Error("a closed node accepts connections")
	}
}
