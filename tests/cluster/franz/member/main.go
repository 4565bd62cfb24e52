// A member of a KIP-848 group of franz-go: prints the number of its partitions whenever it changes, until stdin is closed.
//
//	member SERVERS GROUP TOPIC RACK
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	servers, group, topic, rack := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	var mutex sync.Mutex
	owned := map[int32]bool{}
	changed := func(given bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, partition := range partitions[topic] {
				owned[partition] = given
			}
			for partition, mine := range owned {
				if mine {
					fmt.Print(partition, " ")
				}
			}
			fmt.Println()
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.Rack(rack), kgo.ServerSideBalancer(),
		kgo.OnPartitionsAssigned(changed(true)), kgo.OnPartitionsRevoked(changed(false)), kgo.OnPartitionsLost(changed(false)),
	)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			client.PollFetches(context.Background())
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	client.Close()
}
