"""Writes BYTES by sendall(SIZE) to whoever connects. Usage: source.py PORT BYTES SIZE."""

import socket
import sys

port, total, size = map(int, sys.argv[1:])
listener = socket.create_server(("127.0.0.1", port))
piece = bytes(size)
while True:
    end, _ = listener.accept()
    try:
        for _ in range(total // size):
            end.sendall(piece)
    except OSError:
        # The reader left; the next one is served.
        pass
    end.close()
