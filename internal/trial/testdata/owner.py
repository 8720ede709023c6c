"""Opens what is a session's own, for others to look for: usage: owner.py NAME PORT SECRET.

Everything it has is listed in targets.json, then it serves until it is ended."""
import json, os, signal, socket, sys, threading

name, port, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3]
targets = []


def tcp(family, host):
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError:
        return
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    targets.append({"kind": "tcp", "host": host, "port": port, "secret": secret})


def accept(listener):
    while True:
        connection, _ = listener.accept()
        connection.sendall(secret.encode())
        connection.close()


def udp():  # which a pod need not have
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", port))

    def answer():
        while True:
            _, who = s.recvfrom(100)
            s.sendto(secret.encode(), who)

    threading.Thread(target=answer, daemon=True).start()
    targets.append({"kind": "udp", "host": "127.0.0.1", "port": port, "secret": secret})


def unix(path):
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    if path[0] == "@":
        listener.bind("\0" + path[1:])
    else:  # a whole path may be too long
        os.chdir(os.path.dirname(path))
        listener.bind(os.path.basename(path))
        os.chdir(here)
    listener.listen()
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    targets.append({"kind": "unix", "path": path, "secret": secret})


def keep(directory):
    path = os.path.join(directory, "secret-of-" + name)
    try:
        with open(path, "w") as f:
            f.write(secret)
        os.chmod(path, 0o666)
    except OSError:
        return
    targets.append({"kind": "file", "path": path, "secret": secret})


tcp(socket.AF_INET, "127.0.0.1")
tcp(socket.AF_INET6, "::1")
unix(os.environ["TMPDIR"] + "/s-" + name)
unix(os.getcwd() + "/s-" + name)
for more in udp, lambda: unix("@abstract-" + name):
    try:
        more()
    except OSError as e:
        print(e, flush=True)
for directory in os.getcwd(), os.environ["TMPDIR"], os.environ["HOME"], "/tmp", "/dev/shm":
    keep(directory)

signals = []
signal.signal(signal.SIGURG, lambda *_: open("signalled-" + name, "w").close())
targets.append({"kind": "process", "pid": os.getpid(), "marker": "owner.py\0" + name})
with open("targets.tmp", "w") as f:
    json.dump(targets, f)
os.rename("targets.tmp", "targets.json")
print("ready", flush=True)
threading.Event().wait()
