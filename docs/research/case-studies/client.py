import socket
connection = socket.create_connection(("127.0.0.1", 7010))
chunk = bytes(65536)
for _ in range(3072):
    connection.sendall(chunk)
connection.shutdown(socket.SHUT_WR)
assert connection.recv(1) == b""
