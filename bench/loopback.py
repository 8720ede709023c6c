# Prints how long a connection on loopback takes, in µs, and how fast a transfer
# is, in MiB/s. Arguments: MiB to transfer, connections to make.
import socket, statistics, sys, threading, time

size, count = int(sys.argv[1]) << 20, int(sys.argv[2])
server = socket.create_server(("127.0.0.1", 0))


# One thread makes both ends: two would measure how they hand the interpreter's
# lock to each other. The median leaves out those that another program interrupted.
def connection():
    begin = time.perf_counter()
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    took = time.perf_counter() - begin
    client.close()
    peer.close()
    return took


connect = statistics.median(connection() for _ in range(count)) * 1e6


def drain():
    peer, _ = server.accept()
    buffer = bytearray(1 << 20)
    while peer.recv_into(buffer):
        pass
    peer.send(b"x")


thread = threading.Thread(target=drain)
thread.start()
client, data = socket.create_connection(server.getsockname()), bytes(1 << 20)
begin = time.perf_counter()
for _ in range(size >> 20):
    client.sendall(data)
client.shutdown(socket.SHUT_WR)
client.recv(1)
print(connect, (size >> 20) / (time.perf_counter() - begin))
thread.join()
