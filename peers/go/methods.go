package main

import (
	"bufio"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// size is that of the buffers of methods that have one: io.Copy's own.
const size = 32 << 10

// methods are the ways to pass bytes on, by the name that their port is asked for with.
var methods = []struct {
	name string
	pass pass
}{
	{"pipe", byPipe},
	{"copy", func(to, from *net.TCPConn) error { return last(io.Copy(to, from)) }},
	{"copy-buffer", byBuffer},
	{"syscall", func(to, from *net.TCPConn) error { return byCalls(to, from, syscall.Read, syscall.Write) }},
	{"direct", func(to, from *net.TCPConn) error { return last(from.WriteTo(to)) }},
	{"unix", func(to, from *net.TCPConn) error { return byCalls(to, from, unix.Read, unix.Write) }},
	{"bufio", byBufio},
	{"splice", bySplice},
	{"sendfile", bySendfile},
	{"readv-writev", byVectors},
}

func last(_ int64, err error) error { return err }

// plain hides what a connection can do beside reading and writing, so that nobody splices behind our back.
func plain(to, from *net.TCPConn) (io.Writer, io.Reader) {
	return struct{ io.Writer }{to}, struct{ io.Reader }{from}
}

// byPipe has one goroutine that reads and one that writes, and the pipe of package io between them.
func byPipe(to, from *net.TCPConn) error {
	writer, reader := plain(to, from)
	out, in := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{in}, reader, make([]byte, size))
		// Without an error it is the end of the stream that comes out.
		_ = in.CloseWithError(err)
	}()
	_, err := io.CopyBuffer(writer, struct{ io.Reader }{out}, make([]byte, size))
	// Whoever still reads must not wait for us.
	_ = out.CloseWithError(err)
	return err
}

func byBuffer(to, from *net.TCPConn) error {
	writer, reader := plain(to, from)
	return last(io.CopyBuffer(writer, reader, make([]byte, size)))
}

// byBufio flushes after every read: a message may be all that comes.
func byBufio(to, from *net.TCPConn) error {
	plainTo, plainFrom := plain(to, from)
	writer, reader := bufio.NewWriterSize(plainTo, size), bufio.NewReaderSize(plainFrom, size)
	for {
		if _, err := reader.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		held, _ := reader.Peek(reader.Buffered())
		taken, err := writer.Write(held)
		if err != nil {
			return err
		}
		_, _ = reader.Discard(taken)
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

// byCalls reads and writes by system calls; a short write goes on where it stopped.
func byCalls(to, from *net.TCPConn, read, write func(int, []byte) (int, error)) error {
	buffer := make([]byte, size)
	return loop(to, from,
		func(fd int) (int, error) { return read(fd, buffer) },
		func(fd, given, taken int) (int, error) { return write(fd, buffer[given:taken]) })
}

// byVectors has its buffer in four parts.
func byVectors(to, from *net.TCPConn) error {
	const part = size / 4
	buffer := make([]byte, size)
	vectors := func(begin, end int) [][]byte {
		var parts [][]byte
		for begin < end {
			next := min((begin/part+1)*part, end)
			parts = append(parts, buffer[begin:next])
			begin = next
		}
		return parts
	}
	whole := vectors(0, size)
	return loop(to, from,
		func(fd int) (int, error) { return unix.Readv(fd, whole) },
		func(fd, given, taken int) (int, error) { return unix.Writev(fd, vectors(given, taken)) })
}
