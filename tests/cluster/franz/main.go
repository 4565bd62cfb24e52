// franz-go's client, with its default settings: produces twenty records, reads them in a group, and commits three transactions.
// With "share", it reads them in a share group instead.
//
//	franz SERVERS PROTOCOL MECHANISM USER PASSWORD AUTHORITY [share]
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	topic = "franz-go"
	count = 20
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func connected(more ...kgo.Opt) *kgo.Client {
	servers, protocol, mechanism, user, password, authority := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	options := append(more, kgo.SeedBrokers(strings.Split(servers, ",")...), kgo.AllowAutoTopicCreation())
	if strings.HasSuffix(protocol, "SSL") {
		pem, err := os.ReadFile(authority)
		check(err)
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	switch mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	return client
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if len(os.Args) > 7 {
		share(ctx)
		return
	}
	producer := connected()
	for number := range count {
		check(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, number)}).FirstErr())
	}
	producer.Close()
	consumer := connected(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic))
	for read := 0; read < count; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { fmt.Println(string(record.Value)) })
		read += fetches.NumRecords()
	}
	consumer.Close()
	transactional := connected(kgo.TransactionalID(topic))
	for range 3 {
		check(transactional.BeginTransaction())
		check(transactional.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("committed")}).FirstErr())
		check(transactional.EndTransaction(ctx, kgo.TryCommit))
	}
	transactional.Close()
}
