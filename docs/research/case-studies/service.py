import socket, sys
listener = socket.create_server(("127.0.0.1", 7007))
size = int(sys.argv[1])
while True:
    connection, _ = listener.accept()
    lines = 0
    while data := connection.recv(size):
        lines += data.count(b"\n")
    connection.sendall(b"%d\n" % lines)
    connection.close()
