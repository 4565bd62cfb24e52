// franz-go's consumer and producer as programs for `quorate verify-client` (bench/verify_clients.py).
//
//	franz consume | consume-classic | produce | transact    (the rest comes from QUORATE_… variables)
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	actions := map[string]func(context.Context){
		"consume": func(ctx context.Context) { consume(ctx, kgo.ServerSideBalancer()) },
		"consume-classic": func(ctx context.Context) {
			consume(ctx, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
		},
		"produce":  produce,
		"transact": transact,
	}
	if len(os.Args) != 2 || actions[os.Args[1]] == nil {
		log.Fatal("usage: franz consume|consume-classic|produce|transact")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	actions[os.Args[1]](ctx)
}

func consume(ctx context.Context, own ...kgo.Opt) {
	callback, err := strconv.Atoi(setting("CALLBACK_MS"))
	check(err)
	client := newClient(append(own,
		kgo.Rack(setting("RACK")),
		kgo.ConsumerGroup(setting("GROUP")),
		kgo.ConsumeTopics(setting("TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(300*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, _ map[string][]int32) {
			time.Sleep(time.Duration(callback) * time.Millisecond)
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				log.Println(err)
			}
		}),
	)...)
	for ctx.Err() == nil {
		client.PollFetches(ctx)
	}
	client.Close()
}

func produce(ctx context.Context) {
	client := newClient()
	for ctx.Err() == nil {
		client.Produce(context.Background(), record(), nil)
		time.Sleep(20 * time.Millisecond)
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.Flush(closing); err != nil {
		log.Println(err)
	}
	client.Close()
}

func transact(ctx context.Context) {
	client := newClient(kgo.TransactionalID(setting("TRANSACTIONAL_ID")))
	for ctx.Err() == nil {
		// An error of a transaction that cannot be repaired, such as a newer producer with this id, ends the program.
		if err := client.BeginTransaction(); err != nil {
			log.Println(err)
			break
		}
		commit := kgo.TryCommit
		for range 5 {
			if err := client.ProduceSync(context.Background(), record()).FirstErr(); err != nil {
				commit = kgo.TryAbort
				break
			}
		}
		if err := client.EndTransaction(context.Background(), commit); err != nil {
			log.Println(err)
			break
		}
	}
	client.Close()
}

func record() *kgo.Record {
	return &kgo.Record{Topic: setting("TOPIC"), Value: []byte("a record")}
}

func newClient(own ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(own, kgo.SeedBrokers(strings.Split(setting("BOOTSTRAP"), ",")...), kgo.ClientID(setting("CLIENT_ID")))...)
	check(err)
	return client
}

func setting(name string) string {
	value, there := os.LookupEnv("QUORATE_" + name)
	if !there {
		log.Fatalf("QUORATE_%s is not in the environment: run this by quorate verify-client", name)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
