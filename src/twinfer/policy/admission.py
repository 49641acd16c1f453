"""Which waiting request starts now."""

from __future__ import annotations

import msgspec


class Room(msgspec.Struct, frozen=True):
    """What there is to admit into.

    `running` requests hold pages and `slots` is the most that may; `free_pages` is the pool's rest.
    """

    free_pages: int
    running: int
    slots: int


def admits(pages_needed: int, room: Room) -> bool:
    """Whether a request that needs `pages_needed` pages for its prompt may start.

    A page is kept back for every running request, since each will ask for one before long;
    admitting into those would only lead to preemption.
    """
    return room.running < room.slots and room.free_pages - pages_needed >= room.running
