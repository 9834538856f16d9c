import socket
connection = socket.create_connection(("127.0.0.1", 7007))
chunk = b"0123456789abcde\n" * 4096
for _ in range(2048):
    connection.sendall(chunk)
connection.shutdown(socket.SHUT_WR)
assert int(connection.recv(99)) == 2048 * 4096
