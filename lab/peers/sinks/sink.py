"""Reads a stream as most Python programs do: recv(SIZE) until it ends. Usage: sink.py ADDRESS SIZE; prints bytes/s.

A peer to compare with; it shares no code with bytegauge.
"""

import socket
import sys
import time

address, size = sys.argv[1], int(sys.argv[2])
if "/" in address:
    end = socket.socket(socket.AF_UNIX)
    end.connect(address)
else:
    end = socket.create_connection(("127.0.0.1", int(address)))
began = time.monotonic()
total = 0
while data := end.recv(size):
    total += len(data)
print(f"{total / (time.monotonic() - began):.0f} bytes/s")
sys.exit(0 if total else 1)
