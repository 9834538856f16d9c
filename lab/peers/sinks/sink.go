// Reads a stream as most Go programs do: Read into one slice until it ends. Usage: sink ADDRESS SIZE; prints bytes/s.
// A peer to compare with; it shares no code with bytegauge.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: sink ADDRESS SIZE"))
	}
	network, address := "tcp", "127.0.0.1:"+os.Args[1]
	if strings.Contains(os.Args[1], "/") {
		network, address = "unix", os.Args[1]
	}
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	end, err := net.Dial(network, address)
	if err != nil {
		fail(err)
	}
	buffer := make([]byte, size)
	began := time.Now()
	var total int64
	for {
		got, err := end.Read(buffer)
		total += int64(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			fail(err)
		}
	}
	fmt.Printf("%.0f bytes/s\n", float64(total)/time.Since(began).Seconds())
	if total == 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
