package main

import (
	"io"
	"net"
	"os"
	"strconv"
)

// Without these two the standard library would splice, whatever the buffer.
type reader struct{ io.Reader }
type writer struct{ io.Writer }

func main() {
	size, _ := strconv.Atoi(os.Args[1])
	listener, err := net.Listen("tcp", "127.0.0.1:7010")
	if err != nil {
		panic(err)
	}
	for {
		client, _ := listener.Accept()
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", "127.0.0.1:7011")
			if err != nil {
				return
			}
			io.CopyBuffer(writer{server}, reader{client}, make([]byte, size))
			server.Close()
		}()
	}
}
