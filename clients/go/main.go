// SPDX-License-Identifier: Apache-2.0

// Streams a text, and says how many draft tokens were accepted.
//
//	./generate && go run . [HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	tandem "tandem-stream/tandemv1"
)

func main() {
	address := "localhost:50050"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	stream, err := tandem.NewGenerationClient(connection).Generate(context.Background(), &tandem.GenerateRequest{
		Prompt:    &tandem.GenerateRequest_Text{Text: "The city was"},
		MaxTokens: 60,
		Seed:      proto.Uint64(7),
		Sampling:  &tandem.SamplingOptions{Temperature: proto.Float32(0.8)},
	})
	for err == nil {
		var reply *tandem.GenerateReply
		reply, err = stream.Recv()
		fmt.Print(reply.GetDelta().GetText())
		if record := reply.GetLast().GetSpeculation(); record != nil {
			fmt.Printf("\n\n%d of %d draft tokens accepted\n", record.AcceptedTokens, record.DraftTokens)
		}
	}
	if !errors.Is(err, io.EOF) {
		log.Fatal(err)
	}
}
