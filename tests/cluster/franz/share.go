package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const shared = "franz-go-share"

// Consumes twenty records in a share group (KIP-932): releases every second one once, and prints those that it accepts.
func share(ctx context.Context) {
	producer := connected()
	readFromTheBeginning(ctx, producer)
	for number := range count {
		check(producer.ProduceSync(ctx, &kgo.Record{Topic: shared, Value: fmt.Append(nil, number)}).FirstErr())
	}
	producer.Close()
	consumer := connected(kgo.ShareGroup(shared), kgo.ConsumeTopics(shared))
	for accepted := 0; accepted < count; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			if record.DeliveryCount() == 1 && record.Offset%2 == 1 {
				record.Ack(kgo.AckRelease)
				return
			}
			record.Ack(kgo.AckAccept)
			accepted++
			fmt.Println(string(record.Value))
		})
	}
	check(consumer.FlushAcks(ctx))
	consumer.Close()
}

func readFromTheBeginning(ctx context.Context, client *kgo.Client) {
	earliest := "earliest"
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig,
		ResourceName: shared,
		Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &earliest}},
	}}
	_, err := request.RequestWith(ctx, client)
	check(err)
}
