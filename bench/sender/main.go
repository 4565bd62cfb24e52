// A client that costs next to nothing, for bench/cluster.py: sends one prepared request again and again over one
// connection, so many ahead of their answers at most, for so many seconds, and prints how many were answered, in how
// many seconds. Answers that are not equal to the first one end it: what is counted is one and the same piece of work.
//
//	sender HOST:PORT SECONDS AHEAD < REQUEST    (the request with its size in front)
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"time"
)

// Sent by once at most; a batch of more than what sockets keep would wait for itself.
const mostBytes = 32 << 10

func main() {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	if len(os.Args) != 4 {
		log.Fatal("usage: sender HOST:PORT SECONDS AHEAD < REQUEST")
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	check(err)
	ahead, err := strconv.Atoi(os.Args[3])
	check(err)
	request, err := io.ReadAll(os.Stdin)
	check(err)
	if ahead < 1 || len(request) == 0 || ahead*len(request) > mostBytes {
		log.Fatalf("%d requests of %d bytes ahead: at least 1, and at most %d bytes", ahead, len(request), mostBytes)
	}
	connection, err := net.Dial("tcp", os.Args[1])
	check(err)
	answers := make([]byte, 64<<10)
	first := firstAnswer(connection, request, answers)

	batch := bytes.Repeat(request, ahead)
	began := time.Now()
	until := began.Add(time.Duration(seconds * float64(time.Second)))
	_, err = connection.Write(batch)
	check(err)
	answered, waiting, held := 0, ahead, 0
	for waiting > 0 {
		size, err := connection.Read(answers[held:])
		check(err)
		held += size
		whole := held / len(first)
		for place := range whole {
			if !bytes.Equal(answers[place*len(first):(place+1)*len(first)], first) {
				log.Fatal("an answer differs from the first one")
			}
		}
		held = copy(answers, answers[whole*len(first):held])
		answered += whole
		waiting -= whole
		if whole > 0 && time.Now().Before(until) {
			_, err = connection.Write(batch[:whole*len(request)])
			check(err)
			waiting += whole
		}
	}
	fmt.Println(answered, time.Since(began).Seconds())
}

func firstAnswer(connection net.Conn, request, into []byte) []byte {
	_, err := connection.Write(request)
	check(err)
	_, err = io.ReadFull(connection, into[:4])
	check(err)
	end := 4 + int(binary.BigEndian.Uint32(into))
	if end > len(into)/2 {
		log.Fatalf("an answer of %d bytes", end)
	}
	_, err = io.ReadFull(connection, into[4:end])
	check(err)
	return bytes.Clone(into[:end])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
