import socket, sys, threading

def server(listener):
    connection, _ = listener.accept()
    while header := connection.recv(4, socket.MSG_WAITALL):
        connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
        connection.sendall(b"ok")

listener = socket.create_server(("127.0.0.1", 7030))
threading.Thread(target=server, args=(listener,), daemon=True).start()
client = socket.create_connection(("127.0.0.1", 7030))
if "nodelay" in sys.argv:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(int(sys.argv[1])):
    client.sendall((100).to_bytes(4, "big"))    # a header,
    client.sendall(b"x" * 100)                  # and its body
    client.recv(2)
