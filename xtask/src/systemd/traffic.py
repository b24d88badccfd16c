"""Downloads whose bytes are known: `traffic.py serve`, `traffic.py get ADDRESS BYTES`; `traffic.py ask ADDRESS FROM`."""

import socket
import sys
import threading
import time

PORT = 8000
# Each byte tells its place modulo 251, a prime, so that neither a lost nor a doubled segment goes unseen.
PATTERN = bytes(range(251)) * 1050


def answer(client):
    """Sends as many bytes as the client's line asks for."""
    left, sent = int(client.makefile().readline()), 0
    while left:
        at = sent % 251
        done = client.send(PATTERN[at : at + min(left, 65536)])
        left, sent = left - done, sent + done
    client.close()


def serve():
    """Answers everybody, for ever."""
    listener = socket.create_server(("", PORT))
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def get(address, wanted):
    """Prints whether all bytes came as they were sent, and the kbit/s of payload from the first byte on."""
    server = socket.create_connection((address, PORT), timeout=60)
    server.sendall(b"%d\n" % wanted)
    came, intact, began = 0, True, None
    while data := server.recv(65536):
        began = began or time.monotonic()
        at = came % 251
        intact = intact and data == PATTERN[at : at + len(data)]
        came += len(data)
    took = time.monotonic() - began
    intact = intact and came == wanted
    print("intact" if intact else f"{came}-of-{wanted}", round(came * 8 / 1000 / took))


def ask(address, own):
    """Asks for a page from the address `own`, and prints the first line of the answer."""
    server = socket.create_connection((address, 80), timeout=50, source_address=(own, 0))
    server.sendall(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")
    print(server.makefile().readline().strip())


if sys.argv[1] == "serve":
    serve()
elif sys.argv[1] == "ask":
    ask(sys.argv[2], sys.argv[3])
else:
    get(sys.argv[2], int(sys.argv[3]))
