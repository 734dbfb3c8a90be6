"""Who counts as one client where clients share the server."""

from __future__ import annotations

import ipaddress

# An IPv6 user has a whole network of addresses.
_IPV6_NETWORK = 64


def client_at(peer: tuple[str, int | None] | None) -> str:
    """Name the client at an address: the address itself, or the /64 network of an IPv6 one.

    Args:
        peer: Host and port; None if unknown, as with a Unix socket.
    """
    host = peer[0] if peer else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK), strict=False))
