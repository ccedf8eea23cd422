package couchbasetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

var (
	inXattr     = &gocb.UpsertSpecOptions{IsXattr: true}
	fromXattr   = &gocb.GetSpecOptions{IsXattr: true}
	existsXattr = &gocb.ExistsSpecOptions{IsXattr: true}
)

func TestLookupEverythingInOneTrip(t *testing.T) {
	node, col := start(t)
	_, err := col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("created_at", 1234, inXattr),
		gocb.ReplaceSpec("", user{"Alice", 7}, nil),
	}, &gocb.MutateInOptions{Expiry: time.Hour, StoreSemantic: gocb.StoreSemanticsUpsert})
	must(t, err)

	before := node.Counts()
	res, err := col.LookupIn("k", []gocb.LookupInSpec{
		gocb.GetSpec("$document.exptime", fromXattr),
		gocb.GetSpec("created_at", fromXattr),
		gocb.GetSpec("$vbucket.HLC", fromXattr),
		gocb.ExistsSpec("missing", existsXattr),
		gocb.GetSpec("name", nil),
		gocb.GetSpec("missing", nil),
		gocb.GetSpec("", nil),
	}, nil)
	must(t, err)
	if got, want := node.Counts().Since(before), (couchbasetest.Counts{LookupIn: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	var expiry, created int64
	must(t, res.ContentAt(0, &expiry))
	must(t, res.ContentAt(1, &created))
	if expiry != epoch.Add(time.Hour).Unix() || created != 1234 {
		t.Errorf("expiry %d, created_at %d", expiry, created)
	}
	var hlc struct{ Now, Mode string }
	must(t, res.ContentAt(2, &hlc))
	if want := fmt.Sprint(epoch.Unix()); hlc.Now != want {
		t.Errorf("the server's time is %s, want %s", hlc.Now, want)
	}
	if res.Exists(3) {
		t.Error("an attribute that is not there exists")
	}
	var name string
	must(t, res.ContentAt(4, &name))
	wantErr(t, res.ContentAt(5, &name), gocb.ErrPathNotFound)
	var u user
	must(t, res.ContentAt(6, &u))
	if name != "Alice" || u != (user{"Alice", 7}) {
		t.Errorf("name %q, document %+v", name, u)
	}
}

func TestHLCMode(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	if got := lookupRaw(t, col, "k", "$vbucket.HLC.mode", true); got != `"logical"` {
		t.Errorf("mode %s while the clock stands", got)
	}
	node.Advance(time.Second)
	if got := lookupRaw(t, col, "k", "$vbucket.HLC.mode", true); got != `"real"` {
		t.Errorf("mode %s once the clock has moved", got)
	}
}

func TestVirtualDocument(t *testing.T) {
	_, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	res, err := col.Upsert("k", "two", &gocb.UpsertOptions{Expiry: time.Hour})
	must(t, err)
	var got struct {
		CAS          string
		Datatype     []string
		Deleted      bool
		Exptime      int64
		Flags        uint32
		LastModified string `json:"last_modified"`
		RevID        string
		Seqno        string
		ValueBytes   int    `json:"value_bytes"`
		ValueCRC32C  string `json:"value_crc32c"`
		VbucketUUID  string `json:"vbucket_uuid"`
	}
	raw, err := lookup(col, "k", "$document", true)
	must(t, err)
	must(t, json.Unmarshal(raw, &got))
	if want := fmt.Sprintf("0x%016x", uint64(res.Cas())); got.CAS != want {
		t.Errorf("CAS %s, want %s", got.CAS, want)
	}
	if want := fmt.Sprintf("0x%016x", res.MutationToken().SequenceNumber()); got.Seqno != want {
		t.Errorf("seqno %s, want %s", got.Seqno, want)
	}
	if want := fmt.Sprintf("0x%016x", res.MutationToken().PartitionUUID()); got.VbucketUUID != want {
		t.Errorf("vbucket_uuid %s, want %s", got.VbucketUUID, want)
	}
	if got.Deleted || got.Exptime != epoch.Add(time.Hour).Unix() || got.RevID != "2" || got.ValueBytes != len(`"two"`) ||
		got.LastModified != fmt.Sprint(epoch.Unix()) || len(got.Datatype) != 1 || got.Datatype[0] != "json" || got.Flags == 0 {
		t.Errorf("$document %s", raw)
	}
	sum := crc32.Checksum([]byte(`"two"`), crc32.MakeTable(crc32.Castagnoli))
	if want := fmt.Sprintf("0x%08x", sum); got.ValueCRC32C != want {
		t.Errorf("value_crc32c %s, want %s", got.ValueCRC32C, want)
	}
	if toc := lookupRaw(t, col, "k", "$XTOC", true); toc != `[]` {
		t.Errorf("$XTOC %s of a document without attributes", toc)
	}
	_, err = lookup(col, "k", "$nothing", true)
	wantErr(t, err, gocb.ErrXattrUnknownVirtualAttribute)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("$document.exptime", 1, inXattr)}, nil)
	wantErr(t, err, gocb.ErrXattrCannotModifyVirtualAttribute)
}

func TestStoreSemantics(t *testing.T) {
	body := []gocb.MutateInSpec{gocb.UpsertSpec("created_at", 1, inXattr), gocb.ReplaceSpec("", "v", nil)}
	insert := &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsInsert}
	upsert := &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsUpsert}

	t.Run("replace needs the document", func(t *testing.T) {
		_, col := start(t)
		_, err := col.MutateIn("k", body, nil)
		wantErr(t, err, gocb.ErrDocumentNotFound)
	})
	t.Run("insert makes it once", func(t *testing.T) {
		node, col := start(t)
		_, err := col.MutateIn("k", body, insert)
		must(t, err)
		_, err = col.MutateIn("k", body, insert)
		wantErr(t, err, gocb.ErrDocumentExists)
		if got, want := node.Counts(), (couchbasetest.Counts{MutateIn: 2, Mutations: 1}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
		if got := get[string](t, col, "k"); got != "v" {
			t.Errorf("document %q", got)
		}
	})
	t.Run("insert replaces an expired one", func(t *testing.T) {
		node, col := start(t)
		_, err := col.MutateIn("k", body, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsInsert, Expiry: time.Second})
		must(t, err)
		node.Advance(3 * time.Second)
		_, err = col.MutateIn("k", body, insert)
		must(t, err)
	})
	t.Run("upsert makes or replaces", func(t *testing.T) {
		_, col := start(t)
		for range 2 {
			_, err := col.MutateIn("k", body, upsert)
			must(t, err)
		}
		if got := lookupRaw(t, col, "k", "created_at", true); got != "1" {
			t.Errorf("created_at %s", got)
		}
	})
	t.Run("upsert of attributes alone makes an empty object", func(t *testing.T) {
		_, col := start(t)
		_, err := col.MutateIn("k", body[:1], upsert)
		must(t, err)
		if got := lookupRaw(t, col, "k", "", false); got != "{}" {
			t.Errorf("document %s", got)
		}
	})
	t.Run("upsert with an array operation makes an array", func(t *testing.T) {
		_, col := start(t)
		_, err := col.MutateIn("k", []gocb.MutateInSpec{gocb.ArrayAppendSpec("", 1, nil)}, upsert)
		must(t, err)
		if got := lookupRaw(t, col, "k", "", false); got != "[1]" {
			t.Errorf("document %s", got)
		}
	})
	t.Run("a CAS that has changed", func(t *testing.T) {
		node, col := start(t)
		first, err := col.MutateIn("k", body, insert)
		must(t, err)
		second, err := col.MutateIn("k", body, &gocb.MutateInOptions{Cas: first.Cas(), Expiry: time.Hour})
		must(t, err)
		before := node.Counts()
		_, err = col.MutateIn("k", body, &gocb.MutateInOptions{Cas: first.Cas()})
		wantErr(t, err, gocb.ErrDocumentExists) // gocb's name for it here (GOCBC-1019)
		if n := node.Counts().Since(before).Mutations; n != 0 {
			t.Errorf("%d mutations", n)
		}
		_, err = col.MutateIn("k", body, &gocb.MutateInOptions{Cas: second.Cas()})
		must(t, err)
	})
	t.Run("a CAS of a document that is gone", func(t *testing.T) {
		_, col := start(t)
		first, err := col.MutateIn("k", body, insert)
		must(t, err)
		_, err = col.Remove("k", nil)
		must(t, err)
		_, err = col.MutateIn("k", body, &gocb.MutateInOptions{Cas: first.Cas()})
		wantErr(t, err, gocb.ErrDocumentNotFound)
	})
}

func TestMutationIsAllOrNothing(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", map[string]any{"a": 1}, nil)
	must(t, err)
	before := node.Counts()
	_, err = col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("x", 1, inXattr),
		gocb.UpsertSpec("b", 2, nil),
		gocb.ReplaceSpec("missing", 3, nil),
	}, nil)
	wantErr(t, err, gocb.ErrPathNotFound)
	if got := lookupRaw(t, col, "k", "", false); got != `{"a":1}` {
		t.Errorf("document %s", got)
	}
	_, err = lookup(col, "k", "x", true)
	wantErr(t, err, gocb.ErrPathNotFound)
	if n := node.Counts().Since(before).Mutations; n != 0 {
		t.Errorf("%d mutations", n)
	}
}

func TestXattrsLiveAndDieWithTheDocument(t *testing.T) {
	_, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("created_at", "then", inXattr)}, nil)
	must(t, err)
	_, err = col.Upsert("k", 2, nil)
	must(t, err)
	_, err = col.Replace("k", 3, nil)
	must(t, err)
	if got := lookupRaw(t, col, "k", "created_at", true); got != `"then"` {
		t.Errorf("created_at %s after a plain upsert and replace", got)
	}
	if got := lookupRaw(t, col, "k", "$document.datatype", true); got != `["xattr","json"]` {
		t.Errorf("datatype %s", got)
	}
	if got := lookupRaw(t, col, "k", "$XTOC", true); got != `["created_at"]` {
		t.Errorf("$XTOC %s", got)
	}
	if got := get[int](t, col, "k"); got != 3 {
		t.Errorf("document %d", got)
	}
	_, err = col.Remove("k", nil)
	must(t, err)
	_, err = col.Insert("k", 4, nil)
	must(t, err)
	_, err = lookup(col, "k", "created_at", true)
	wantErr(t, err, gocb.ErrPathNotFound)
}

func TestXattrsOfBinaryDocuments(t *testing.T) {
	_, col := start(t)
	raw := gocb.NewRawBinaryTranscoder()
	_, err := col.Upsert("k", []byte{0xff}, &gocb.UpsertOptions{Transcoder: raw})
	must(t, err)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("created_at", 1, inXattr)}, nil)
	must(t, err)
	res, err := col.Get("k", &gocb.GetOptions{Transcoder: raw})
	must(t, err)
	var got []byte
	must(t, res.Content(&got))
	if string(got) != "\xff" {
		t.Errorf("document %q", got)
	}
	_, err = lookup(col, "k", "a", false)
	wantErr(t, err, gocb.ErrValueNotJSON)
}

func TestXattrPathsAndNames(t *testing.T) {
	_, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	create := &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true}
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("meta.a.b", 1, inXattr)}, nil)
	wantErr(t, err, gocb.ErrPathNotFound)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("meta.a.b", 1, create),
		gocb.IncrementSpec("meta.n", 5, &gocb.CounterSpecOptions{IsXattr: true, CreatePath: true}),
		gocb.UpsertSpec("_system", true, inXattr),
	}, nil)
	must(t, err)
	if got := lookupRaw(t, col, "k", "meta", true); got != `{"a":{"b":1},"n":5}` {
		t.Errorf("meta %s", got)
	}
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.RemoveSpec("meta", &gocb.RemoveSpecOptions{IsXattr: true})}, nil)
	must(t, err)
	_, err = lookup(col, "k", "meta", true)
	wantErr(t, err, gocb.ErrPathNotFound)

	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec(strings.Repeat("x", 15), 1, inXattr)}, nil)
	must(t, err)
	for _, name := range []string{strings.Repeat("x", 16), "_", "!a", "#", "é" + strings.Repeat("x", 15)} {
		_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec(name, 1, inXattr)}, nil)
		var kv *gocb.KeyValueError
		if !errors.As(err, &kv) || kv.ErrorName != "XATTR_EINVAL" {
			t.Errorf("attribute %q: %v", name, err)
		}
	}
}

func TestMacros(t *testing.T) {
	_, col := start(t)
	res, err := col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("cas", gocb.MutationMacroCAS, inXattr),
		gocb.UpsertSpec("seqno", gocb.MutationMacroSeqNo, inXattr),
		gocb.InsertSpec("crc", gocb.MutationMacroValueCRC32c, &gocb.InsertSpecOptions{IsXattr: true}),
		gocb.ReplaceSpec("", "body", nil),
	}, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsInsert})
	must(t, err)
	cas := uint64(res.Cas())
	var swapped uint64
	for range 8 {
		swapped, cas = swapped<<8|cas&0xff, cas>>8
	}
	if got, want := lookupRaw(t, col, "k", "cas", true), fmt.Sprintf(`"0x%016x"`, swapped); got != want {
		t.Errorf("cas %s, want %s", got, want)
	}
	if got, want := lookupRaw(t, col, "k", "seqno", true), lookupRaw(t, col, "k", "$document.seqno", true); got != want {
		t.Errorf("seqno %s, want %s", got, want)
	}
	if got, want := lookupRaw(t, col, "k", "crc", true), lookupRaw(t, col, "k", "$document.value_crc32c", true); got != want {
		t.Errorf("crc %s, want %s", got, want)
	}
}

func TestRemoveInSubDocument(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.RemoveSpec("", nil)}, nil)
	must(t, err)
	_, err = col.Get("k", nil)
	wantErr(t, err, gocb.ErrDocumentNotFound)
	if n := node.Counts().Mutations; n != 2 {
		t.Errorf("%d mutations, want 2", n)
	}
}

func TestRefusedClearly(t *testing.T) {
	_, col := start(t)
	_, err := col.Upsert("k", map[string]any{"a": 1}, nil)
	must(t, err)
	get := []gocb.LookupInSpec{gocb.GetSpec("a", nil)}
	for _, tt := range []struct {
		name   string
		do     func() error
		want   error
		reason string
	}{
		{"access-deleted lookup", func() error {
			o := &gocb.LookupInOptions{}
			o.Internal.DocFlags = gocb.SubdocDocFlagAccessDeleted
			_, err := col.LookupIn("k", get, o)
			return err
		}, gocb.ErrUnsupportedOperation, "keeps no deleted documents"},
		{"access-deleted mutation", func() error {
			o := &gocb.MutateInOptions{}
			o.Internal.DocFlags = gocb.SubdocDocFlagAccessDeleted
			_, err := col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, inXattr)}, o)
			return err
		}, gocb.ErrUnsupportedOperation, "keeps no deleted documents"},
		{"replica read", func() error {
			o := &gocb.LookupInOptions{}
			o.Internal.DocFlags = gocb.SubdocDocFlag(memd.SubdocDocFlagReplicaRead)
			_, err := col.LookupIn("k", get, o)
			return err
		}, gocb.ErrFeatureNotAvailable, ""},
		{"seventeen lookups", func() error {
			_, err := col.LookupIn("k", make([]gocb.LookupInSpec, 17), nil)
			return err
		}, gocb.ErrInvalidArgument, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			wantErr(t, err, tt.want)
			if !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %q does not say %q", err, tt.reason)
			}
		})
	}
}
