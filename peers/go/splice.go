package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// most is asked for at once: the pipe takes less where it holds less.
const most = 1 << 20

// bySplice moves pages through a pipe of the kernel.
func bySplice(to, from *net.TCPConn) error {
	return throughPipe(to, from, func(fd, pipe int) (int, error) {
		moved, err := unix.Splice(fd, nil, pipe, nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(moved), err
	})
}

// bySendfile fills the pipe by sendfile(2): into a socket it would take from files only.
func bySendfile(to, from *net.TCPConn) error {
	return throughPipe(to, from, func(fd, pipe int) (int, error) {
		return unix.Sendfile(pipe, fd, nil, most)
	})
}

// throughPipe fills a pipe when it is empty, so that a refusal always means that the socket is.
func throughPipe(to, from *net.TCPConn, fill func(fd, pipe int) (int, error)) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return err
	}
	defer func() {
		_ = unix.Close(pipe[0])
		_ = unix.Close(pipe[1])
	}()
	return loop(to, from,
		func(fd int) (int, error) { return fill(fd, pipe[1]) },
		func(fd, given, taken int) (int, error) {
			moved, err := unix.Splice(pipe[0], nil, fd, nil, taken-given, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			return int(moved), err
		})
}
