package couchbasetest

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/couchbase/gocbcore/v10/memd"
)

// stream is a connection whose client sends no more.
type stream struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stream) Close() error                { return nil }

// FuzzPackets sends arbitrary bytes on a connection that is logged in and has negotiated
// all features. The node must not panic or hang, and must answer with packets only.
func FuzzPackets(f *testing.F) {
	node, err := New(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = node.Close() })
	if err := node.AddCollection(node.Bucket(), "s", "c", nil); err != nil {
		f.Fatal(err)
	}
	for _, p := range seedPackets() {
		f.Add(encode(f, p...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &stream{in: bytes.NewReader(in)}
		c := newConn(node, s)
		c.authed, c.bucket = true, node.bucket(node.Bucket())
		c.features = supported
		c.Negotiate(true, true)
		c.serve()
		for out := memd.NewConn(&s.out); ; {
			p, _, err := out.ReadPacket()
			if err == io.EOF {
				break
			}
			if err != nil || p.Magic != memd.CmdMagicRes {
				t.Fatalf("answered %v, %v", p, err)
			}
		}
	})
}

func encode(f *testing.F, packets ...memd.Packet) []byte {
	var b bytes.Buffer
	c := memd.NewConn(&b)
	for feature := range supported {
		if supported[feature] && feature < 64 {
			c.EnableFeature(memd.HelloFeature(feature))
		}
	}
	for _, p := range packets {
		p.Magic = memd.CmdMagicReq
		if err := c.WritePacket(&p); err != nil {
			f.Fatal(err)
		}
	}
	return b.Bytes()
}

func seedPackets() [][]memd.Packet {
	key := []byte("k")
	spec := func(op memd.SubDocOpType, flags memd.SubdocFlag, path, value string) []byte {
		b := []byte{byte(op), byte(flags), 0, byte(len(path))}
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		return append(append(b, path...), value...)
	}
	store := func(cmd memd.CmdCode, value string) memd.Packet {
		return memd.Packet{Command: cmd, Key: key, Extras: []byte{0, 0, 0, 0, 0, 0, 0, 60}, Value: []byte(value)}
	}
	mutate := func(specs ...[]byte) memd.Packet {
		return memd.Packet{
			Command: memd.CmdSubDocMultiMutation, Key: key, Extras: []byte{0, 0, 0, 60, 1}, Value: bytes.Join(specs, nil),
			PreserveExpiryFrame: &memd.PreserveExpiryFrame{},
		}
	}
	durable := store(memd.CmdReplace, "2")
	durable.DurabilityLevelFrame = &memd.DurabilityLevelFrame{DurabilityLevel: 1}
	return [][]memd.Packet{
		{{Command: memd.CmdHello, Value: []byte{0, 1, 0, 18}}, {Command: memd.CmdNoop}, {Command: memd.CmdStat}},
		{{Command: memd.CmdSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00a\x00b")}},
		{
			{Command: memd.CmdSASLAuth, Key: []byte("SCRAM-SHA1"), Value: []byte("n,,n=a,r=b")},
			{Command: memd.CmdSASLStep, Key: []byte("SCRAM-SHA1"), Value: []byte("c=biws,r=b,p=eA==")},
		},
		{{Command: memd.CmdSelectBucket, Key: []byte("default")}, {Command: memd.CmdGetClusterConfig, Extras: make([]byte, 16)}},
		{{Command: memd.CmdGetErrorMap, Value: []byte{0, 2}}, {Command: memd.CmdCollectionsGetManifest}, {Command: memd.CmdCollectionsGetID, Value: []byte("s.c")}},
		{store(memd.CmdSet, `{"a":[1,2]}`), {Command: memd.CmdGet, Key: key}, {Command: memd.CmdGetMeta, Key: key, Extras: []byte{2}}, durable},
		{store(memd.CmdAdd, "1"), {Command: memd.CmdDelete, Key: key}},
		{store(memd.CmdSet, "1"), {Command: memd.CmdTouch, Key: key, Extras: []byte{0, 0, 1, 0}}, {Command: memd.CmdGAT, Key: key, Extras: []byte{0, 0, 1, 0}}},
		{store(memd.CmdSet, "1"), {Command: memd.CmdGetLocked, Key: key, Extras: []byte{0, 0, 0, 1}}, {Command: memd.CmdUnlockKey, Key: key, Cas: 1}},
		{{Command: memd.CmdSet, Key: key, Extras: make([]byte, 8), Value: []byte("\x05\x10hello"), Datatype: uint8(memd.DatatypeFlagCompressed)}},
		{mutate(
			spec(memd.SubDocOpDictSet, memd.SubdocFlagXattrPath|memd.SubdocFlagMkDirP, "a.b", "1"),
			spec(memd.SubDocOpDictSet, memd.SubdocFlagXattrPath|memd.SubdocFlagExpandMacros, "c", macroChecksum),
			spec(memd.SubDocOpSetDoc, 0, "", `{"x":[1,2,3],"n":1}`),
			spec(memd.SubDocOpArrayInsert, 0, "x[1]", "9"),
			spec(memd.SubDocOpCounter, 0, "n", "5"),
		), {
			Command: memd.CmdSubDocMultiLookup, Key: key, Value: bytes.Join([][]byte{
				{byte(memd.SubDocOpGet), byte(memd.SubdocFlagXattrPath), 0, 9}, []byte("$document"),
				{byte(memd.SubDocOpGet), byte(memd.SubdocFlagXattrPath), 0, 12}, []byte("$vbucket.HLC"),
				{byte(memd.SubDocOpGet), byte(memd.SubdocFlagXattrPath), 0, 5}, []byte("$XTOC"),
				{byte(memd.SubDocOpGet), 0, 0, 5}, []byte("x[-1]"),
				{byte(memd.SubDocOpGetDoc), 0, 0, 0},
			}, nil),
		}},
		{mutate(spec(memd.SubDocOpArrayPushLast, 0, "", "1,2"), spec(memd.SubDocOpArrayAddUnique, 0, "", "3"), spec(memd.SubDocOpDelete, 0, "[0]", ""))},
	}
}
