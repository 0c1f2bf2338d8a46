"""One request of Kafka's protocol by hand, which no client offers: the end of another's transaction."""

import socket
import struct

END_TXN, VERSION = 26, 1


def end_transaction(bootstrap, transactional_id, producer_id, producer_epoch, commit):
    """Asks the coordinator, which must be this broker, to end a transaction; returns the error code."""
    host, port = bootstrap.rsplit(":", 1)
    name = transactional_id.encode()
    header = struct.pack(">hhih", END_TXN, VERSION, 1, -1)
    body = struct.pack(f">h{len(name)}sqh?", len(name), name, producer_id, producer_epoch, commit)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        _correlation, _throttle_ms, error = struct.unpack(">iih", stream.read(size))
    return error
