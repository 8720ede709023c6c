// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// What a client can ask for with Accept, beside JSON.
const (
	eventStream = "text/event-stream"
	octetStream = "application/octet-stream"
)

// maxMessage is how many bytes one message of a request has at most, as JSON. What it says
// may be less: the chain bounds that.
const maxMessage = 16 << 20

// jsonOf writes messages as the mapping of protobuf says, and refuses what it does not know.
var jsonOf = &runtime.JSONPb{}

// lines writes messages as JSON: one, or one on each line of a stream.
type lines struct{}

// Marshal returns a message as JSON.
func (lines) Marshal(v any) ([]byte, error) {
	if streamed, ok := v.(map[string]any); ok && streamed["result"] != nil { // as the gateway wraps messages of streams
		v = streamed["result"]
		if of, ok := v.(interface{ GetEvent() *pb.Event }); ok && len(of.GetEvent().GetOutput().GetData()) > 0 {
			return outputJSON(of.GetEvent())
		}
	}
	return jsonOf.Marshal(v)
}

// outputJSON returns the message with an event that is output. Its bytes are written by
// themselves: protojson looks at each character of what they become.
func outputJSON(event *pb.Event) ([]byte, error) {
	output := event.GetOutput()
	text, err := jsonOf.Marshal(&pb.WatchExecutionResponse{Event: &pb.Event{
		ExecutionId: event.GetExecutionId(), Sequence: event.GetSequence(), Time: event.GetTime(),
		Kind: &pb.Event_Output{Output: &pb.Output{Stream: output.GetStream(), Offset: output.GetOffset()}},
	}})
	if err != nil {
		return nil, err
	}
	before := len(text) - len("}}}") // the output, the event and the message end
	line := make([]byte, 0, len(text)+base64.StdEncoding.EncodedLen(len(output.GetData()))+len(`,"data":""`)+1)
	line = append(line, text[:before]...)
	if line[before-1] != '{' {
		line = append(line, ',')
	}
	line = append(line, `"data":"`...)
	line = base64.StdEncoding.AppendEncode(line, output.GetData())
	return append(line, `"}}}`...), nil
}

// Unmarshal reads a message.
func (lines) Unmarshal(data []byte, v any) error {
	return lines{}.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// NewEncoder is part of the interface.
func (l lines) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := l.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
}

// NewDecoder returns what reads the messages of a body, one after the other.
func (lines) NewDecoder(r io.Reader) runtime.Decoder {
	bounded := &boundedReader{reader: r}
	decoder := json.NewDecoder(bounded)
	return runtime.DecoderFunc(func(v any) error {
		bounded.left = maxMessage
		err := decode(decoder, v)
		if body, ok := r.(*streamedBody); ok && err != nil && !errors.Is(err, io.EOF) {
			body.fail(err)
		}
		return err
	})
}

// decode reads the next message of a body.
func decode(decoder *json.Decoder, v any) error {
	var text json.RawMessage
	if err := decoder.Decode(&text); err != nil {
		return explained(err)
	}
	message, ok := v.(proto.Message)
	if !ok { // a field of one
		return worded(jsonOf.Unmarshal(text, v))
	}
	err := protojson.Unmarshal(text, message)
	return worded(err, valuesFor(err, message.ProtoReflect().Descriptor())...)
}

// explained says what is wrong with a body.
func explained(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the body is not JSON: it ends too soon")
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("the body is not JSON: %w at byte %d", err, syntax.Offset)
	}
	return err
}

// worded says it without the name of the library, which it spells in two ways.
func worded(err error, values ...string) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "proto:")
	if len(values) > 0 {
		text += ": want one of " + strings.Join(values, ", ")
	}
	return errors.New("the body does not fit: " + strings.Trim(text, " \u00a0") + "; " + DocumentPath + " tells what does")
}

var wrongEnum = regexp.MustCompile(`invalid value for enum field (\w+):`)

// valuesFor returns what an enum may be that an error is about, in a message or one that
// it has.
func valuesFor(err error, message protoreflect.MessageDescriptor) (values []string) {
	if err == nil {
		return nil
	}
	field := wrongEnum.FindStringSubmatch(err.Error())
	if field == nil {
		return nil
	}
	seen := map[protoreflect.MessageDescriptor]bool{message: true}
	for queue := []protoreflect.MessageDescriptor{message}; len(queue) > 0; queue = queue[1:] {
		fields := queue[0].Fields()
		if f := fields.ByJSONName(field[1]); f != nil && f.Enum() != nil {
			for i := 1; i < f.Enum().Values().Len(); i++ { // the first says that there is none
				values = append(values, string(f.Enum().Values().Get(i).Name()))
			}
			return values
		}
		for i := range fields.Len() {
			if inner := fields.Get(i).Message(); inner != nil && !seen[inner] {
				seen[inner] = true
				queue = append(queue, inner)
			}
		}
	}
	return nil
}

// boundedReader reads no more of a message than it may have.
type boundedReader struct {
	reader io.Reader
	left   int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("a message of the body has more than %d bytes", maxMessage)
	}
	n, err := r.reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// ContentType is that of an answer, and StreamContentType that of a stream.
func (lines) ContentType(any) string       { return "application/json" }
func (lines) StreamContentType(any) string { return "application/x-ndjson" }

// events writes messages as server-sent events. The id of an event of an execution is its
// sequence, so that a client which comes back with Last-Event-ID misses none.
type events struct{ lines }

// Marshal returns a message of a stream as an event, and any other as it is.
func (events) Marshal(v any) ([]byte, error) {
	text, err := lines{}.Marshal(v)
	streamed, ok := v.(map[string]any)
	if err != nil || !ok {
		return text, err
	}
	var b bytes.Buffer
	if of, ok := streamed["result"].(interface{ GetEvent() *pb.Event }); ok {
		b.WriteString("id: " + strconv.FormatUint(of.GetEvent().GetSequence(), 10) + "\n")
	}
	if streamed["error"] != nil {
		b.WriteString("event: error\n")
	}
	b.WriteString("data: ")
	b.Write(text)
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// StreamContentType is that of a stream.
func (events) StreamContentType(any) string { return eventStream }

// plain writes the bytes of files and artifacts as they are.
type plain struct{ lines }

// Marshal returns the bytes of a message that has some.
func (plain) Marshal(v any) ([]byte, error) {
	if streamed, ok := v.(map[string]any); ok {
		if of, ok := streamed["result"].(interface{ GetData() []byte }); ok {
			return of.GetData(), nil
		}
		if streamed["error"] != nil {
			panic(http.ErrAbortHandler) // bytes that end so are not whole, and nobody takes the error for some of them
		}
	}
	return lines{}.Marshal(v)
}

// piece is how many bytes of an upload one message has.
const piece = 64 << 10

// NewDecoder returns what reads the messages of a body. Where the body is the bytes of an
// upload, the first has what the query says, and the others the bytes.
func (plain) NewDecoder(r io.Reader) runtime.Decoder {
	body, ok := r.(*streamedBody)
	if !ok || body.query == nil {
		return lines{}.NewDecoder(r)
	}
	var begun bool
	var ended error
	return runtime.DecoderFunc(func(v any) error {
		message := v.(proto.Message).ProtoReflect()
		fields := message.Descriptor().Fields()
		if !begun {
			begun = true
			header := message.Mutable(fields.ByName("header")).Message().Interface()
			err := parameters{}.Parse(header, body.query, new(utilities.DoubleArray))
			if err != nil {
				body.fail(err)
			}
			return err
		}
		data, n := make([]byte, piece), 0
		for n < len(data) && ended == nil {
			var more int
			more, ended = body.Read(data[n:])
			n += more
		}
		if n == 0 {
			return ended
		}
		message.Set(fields.ByName("data"), protoreflect.ValueOfBytes(data[:n]))
		return nil
	})
}

// Delimiter is between the messages of a stream.
func (plain) Delimiter() []byte { return nil }

// StreamContentType is that of a stream.
func (plain) StreamContentType(v any) string {
	if _, ok := v.(interface{ GetData() []byte }); ok {
		return octetStream
	}
	return lines{}.StreamContentType(v)
}
