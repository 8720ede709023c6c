# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""A network that can be cut, to show what a lost connection does."""

import socket
import threading


class Wire:
    """Leads every connection to its address on to a server."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        socket.create_connection(self.server).close()  # or tell at once that nobody is there
        self.ends = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(self.server)
            self.ends += [near, far]
            for pair in (near, far), (far, near):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was cut

    def cut(self):
        """Ends every connection there is. New ones can be made."""
        ends, self.ends = self.ends, []
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was faster
