"""Serves slugs: GET /Some%20Title answers some-title."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import unquote

from slugs import slug


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(slug(unquote(self.path[1:])).encode())

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
