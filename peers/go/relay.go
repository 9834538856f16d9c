package main

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// pass passes on what comes from one connection to another until the stream ends, which is no error.
type pass func(to, from *net.TCPConn) error

// serve accepts connections until that fails for good.
func serve(listener net.Listener, upstream string, pass pass) error {
	for {
		client, err := listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			// Descriptors come back when connections end.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		go join(client.(*net.TCPConn), upstream, pass)
	}
}

// join passes a connection on, both ways.
func join(client *net.TCPConn, upstream string, pass pass) {
	dialled, err := net.Dial("tcp", upstream)
	if err != nil {
		reset(client)
		return
	}
	server := dialled.(*net.TCPConn)
	var both sync.WaitGroup
	both.Add(2)
	direction := func(to, from *net.TCPConn) {
		defer both.Done()
		if err := pass(to, from); err != nil {
			// The other direction sees it by its own calls.
			reset(to)
			reset(from)
			return
		}
		// The other direction may go on.
		_ = to.CloseWrite()
	}
	go direction(server, client)
	go direction(client, server)
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

// reset closes a connection so that its peer learns of a failure.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
