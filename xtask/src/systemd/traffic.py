"""Downloads whose bytes are known: `traffic.py serve`, `traffic.py get ADDRESS BYTES`."""

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


if sys.argv[1] == "serve":
    serve()
else:
    get(sys.argv[2], int(sys.argv[3]))
