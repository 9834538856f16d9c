package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// each runs a test of every method, between a client and whoever it is connected to.
func each(t *testing.T, test func(t *testing.T, client, server *net.TCPConn)) {
	for _, method := range methods {
		t.Run(method.name, func(t *testing.T) {
			behind, front := listen(t), listen(t)
			go func() { _ = serve(front, behind.Addr().String(), method.pass) }()
			client, err := net.Dial("tcp", front.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := behind.Accept()
			if err != nil {
				t.Fatal(err)
			}
			for _, conn := range []net.Conn{client, server} {
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				t.Cleanup(func() { _ = conn.Close() })
			}
			test(t, client.(*net.TCPConn), server.(*net.TCPConn))
		})
	}
}

func listen(t *testing.T) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func random(t *testing.T, size int) []byte {
	text := make([]byte, size)
	if _, err := rand.Read(text); err != nil {
		t.Fatal(err)
	}
	return text
}

// All that one side says arrives with its end, and the other side can still answer.
func TestContentAndHalfClose(t *testing.T) {
	each(t, func(t *testing.T, client, server *net.TCPConn) {
		for _, way := range [][2]*net.TCPConn{{client, server}, {server, client}} {
			said := random(t, 3_000_001)
			go func() {
				_, _ = way[0].Write(said[:1])
				_, _ = way[0].Write(said[1:])
				_ = way[0].CloseWrite()
			}()
			heard, err := io.ReadAll(way[1])
			if err != nil || !bytes.Equal(heard, said) {
				t.Fatalf("%d of %d bytes arrived: %v", len(heard), len(said), err)
			}
		}
	})
}

// A message is passed on although nothing follows it.
func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, client, server *net.TCPConn) {
		for round := 0; round < 50; round++ {
			said := random(t, 1+round*211)
			for _, way := range [][2]*net.TCPConn{{client, server}, {server, client}} {
				if _, err := way[0].Write(said); err != nil {
					t.Fatal(err)
				}
				heard := make([]byte, len(said))
				if _, err := io.ReadFull(way[1], heard); err != nil || !bytes.Equal(heard, said) {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		}
	})
}

// A reset is passed on as one, whoever sends it.
func TestResets(t *testing.T) {
	for _, fromClient := range []bool{true, false} {
		each(t, func(t *testing.T, client, server *net.TCPConn) {
			goes, stays := client, server
			if !fromClient {
				goes, stays = server, client
			}
			reset(goes)
			if _, err := io.ReadAll(stays); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("%v", err)
			}
		})
	}
}

// Who does not read holds up who writes.
func TestBackPressure(t *testing.T) {
	each(t, func(t *testing.T, client, server *net.TCPConn) {
		const limit = 256 << 20
		_ = client.SetWriteDeadline(time.Now().Add(time.Second))
		buffer, wrote := make([]byte, 1<<20), 0
		for wrote < limit {
			more, err := client.Write(buffer)
			wrote += more
			if err != nil {
				return
			}
		}
		t.Fatalf("%d bytes were taken from a client whose server reads nothing", wrote)
	})
}

// Who cannot be connected further is reset.
func TestRefusedUpstream(t *testing.T) {
	gone, front := listen(t), listen(t)
	address := gone.Addr().String()
	_ = gone.Close()
	go func() { _ = serve(front, address, methods[0].pass) }()
	// The reset may come before Dial has looked.
	client, err := net.Dial("tcp", front.Addr().String())
	if err == nil {
		defer client.Close()
		_ = client.SetDeadline(time.Now().Add(time.Minute))
		_, err = io.ReadAll(client)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v", err)
	}
}
