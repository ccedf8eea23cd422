package grpcsession_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	grpcsession "github.com/slidingttl/slidingttl/middleware/grpc"
)

// rawCall calls path as no client library would, and returns the trailers of the answer.
func (s *site) rawCall(path string) map[string]string {
	s.t.Helper()
	conn, err := s.pipe.DialContext(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "site"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // to memory
	}
	if err := framer.WriteSettings(); err != nil {
		s.t.Fatal(err)
	}
	err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := framer.WriteData(1, true, make([]byte, 5)); err != nil { // an empty message
		s.t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			s.t.Fatal(err)
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			return map[string]string{"reset": reset.ErrCode.String()}
		}
		headers, ok := frame.(*http2.MetaHeadersFrame)
		if !ok || !headers.StreamEnded() {
			continue
		}
		got := map[string]string{}
		for _, f := range headers.Fields {
			got[f.Name] = f.Value
		}
		return got
	}
}

// TestPathWithoutSlash: the method of a call is what the client wrote into :path. A name
// that Options.Require does not know by its slash gives no access to the method.
func TestPathWithoutSlash(t *testing.T) {
	s := newSite(t, &grpcsession.Options{Require: func(method string) bool {
		return method == "/test.Site/chat" || method == "/test.Site/mine"
	}})
	s.stream = func(grpc.ServerStream) error { t.Error("the handler ran"); return nil }
	for _, path := range []string{"/test.Site/chat", "test.Site/chat", "test.Site/mine", "//test.Site/chat", "", "chat"} {
		if got := s.rawCall(path); got["grpc-status"] == "0" {
			t.Errorf("%q without a token: %v", path, got)
		}
	}
}

// TestMethodWithoutSlash asks the Guard itself: servers before grpc 1.79.3 pass such a
// method on, and a server of another kind may.
func TestMethodWithoutSlash(t *testing.T) {
	s := newSite(t, nil)
	guard := grpcsession.New(s.sessions, &grpcsession.Options{Require: mine})
	for _, method := range []string{"test.Site/mine", "mine", ""} {
		_, err := guard.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			t.Errorf("the handler of %q ran", method)
			return nil, nil
		})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%q: %v", method, err)
		}
		err = guard.Stream(nil, nowhere{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method}, func(any, grpc.ServerStream) error {
			t.Errorf("the stream handler of %q ran", method)
			return nil
		})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%q: %v", method, err)
		}
	}
}

// nowhere is the stream of a call that came by no server.
type nowhere struct {
	grpc.ServerStream
	ctx context.Context
}

func (n nowhere) Context() context.Context { return n.ctx }
