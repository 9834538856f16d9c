"""Reads a stream as asyncio programs do: sock_recv(SIZE) in an event loop. Usage: asyncio_sink.py PORT SIZE; prints bytes/s."""

import asyncio
import socket
import sys
import time


async def main(port: int, size: int) -> int:
    loop = asyncio.get_running_loop()
    end = socket.create_connection(("127.0.0.1", port))
    end.setblocking(False)
    began = time.monotonic()
    total = 0
    while data := await loop.sock_recv(end, size):
        total += len(data)
    print(f"{total / (time.monotonic() - began):.0f} bytes/s")
    return 0 if total else 1


sys.exit(asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]))))
