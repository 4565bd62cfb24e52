// A peer for bench/cluster.py: says how many ms three brokers of kfake took to start and to stop (the best of ten),
// then serves one broker until its input ends.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func start(brokers int) *kfake.Cluster {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		log.Fatal(err)
	}
	return cluster
}

func main() {
	started, stopped := time.Hour, time.Hour
	for range 10 {
		begin := time.Now()
		cluster := start(3)
		started = min(started, time.Since(begin))
		begin = time.Now()
		cluster.Close()
		stopped = min(stopped, time.Since(begin))
	}
	cluster := start(1)
	defer cluster.Close()
	ms := func(found time.Duration) float64 { return float64(found.Microseconds()) / 1000 }
	fmt.Println(cluster.ListenAddrs()[0], ms(started), ms(stopped))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
