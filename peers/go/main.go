// Bytegauge-go-relays passes TCP connections on, by ten ways to copy between sockets in Go, each on a port of its own.
//
//	bytegauge-go-relays -upstream 127.0.0.1:9000 -relay copy=127.0.0.1:9001 -relay splice=127.0.0.1:9002
//
// Every way is a relay: what comes is passed on, all of it and nothing else, both ways, with the end of the stream and
// with failures. It counts nothing and prints nothing: whoever measures it stands on both sides.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
)

func main() {
	log.SetFlags(0)
	var relays []relay
	flag.Func("relay", "`METHOD=ADDRESS` to listen on, as often as wanted; methods: "+strings.Join(names(), ", "),
		func(text string) error {
			found, err := parse(text)
			relays = append(relays, found)
			return err
		})
	upstream := flag.String("upstream", "", "`ADDRESS` to connect to for every connection")
	version := flag.Bool("version", false, "print the version and leave")
	flag.Parse()
	if *version {
		fmt.Printf("bytegauge-go-relays, Go version %s\n", strings.TrimPrefix(runtime.Version(), "go"))
		return
	}
	if len(relays) == 0 || *upstream == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	listeners := make([]net.Listener, 0, len(relays))
	for _, relay := range relays {
		listener, err := net.Listen("tcp", relay.address)
		if err != nil {
			log.Fatal(err)
		}
		listeners = append(listeners, listener)
	}
	var all sync.WaitGroup
	for at, relay := range relays {
		all.Add(1)
		go func() {
			defer all.Done()
			log.Print(serve(listeners[at], *upstream, relay.pass))
		}()
	}
	all.Wait()
	os.Exit(1)
}

// relay is a way to pass bytes on, and where it listens.
type relay struct {
	pass    pass
	address string
}

func parse(text string) (relay, error) {
	name, address, ok := strings.Cut(text, "=")
	if !ok {
		return relay{}, fmt.Errorf("%q lacks its address: write METHOD=ADDRESS", text)
	}
	for _, method := range methods {
		if method.name == name {
			return relay{pass: method.pass, address: address}, nil
		}
	}
	return relay{}, fmt.Errorf("no method is called %q: use one of %s", name, strings.Join(names(), ", "))
}

func names() []string {
	all := make([]string, len(methods))
	for at, method := range methods {
		all[at] = method.name
	}
	return all
}
