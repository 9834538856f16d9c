package main

import (
	"io"
	"net"
	"syscall"
)

// loop takes from one connection and gives all of it to the other, until the stream ends. Both sockets do not block: Go's
// poller waits for them.
func loop(to, from *net.TCPConn, take func(fd int) (int, error), give func(fd, given, taken int) (int, error)) error {
	source, err := from.SyscallConn()
	if err != nil {
		return err
	}
	target, err := to.SyscallConn()
	if err != nil {
		return err
	}
	for {
		taken, err := once(source.Read, take)
		if taken == 0 || err != nil {
			return err
		}
		for given := 0; given < taken; {
			more, err := once(target.Write, func(fd int) (int, error) { return give(fd, given, taken) })
			if err == nil && more == 0 {
				err = io.ErrShortWrite
			}
			if err != nil {
				return err
			}
			given += more
		}
	}
}

// once makes a call as soon as its socket is ready; a signal does not end it.
func once(ready func(func(fd uintptr) bool) error, call func(fd int) (int, error)) (int, error) {
	var moved int
	var failed error
	err := ready(func(fd uintptr) bool {
		for {
			moved, failed = call(int(fd))
			if failed != syscall.EINTR {
				return failed != syscall.EAGAIN
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return moved, nil
}
