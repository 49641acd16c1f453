"""A board in shared memory on which router and engines leave notes without messages.

It holds one slot for each engine and one stamp for each page, so that what an engine may no longer
do is known to it even when it has slept through every message:

- An engine notes when it was last alive and what its step carries. The router notes which
  process may use the slot; an engine that finds another number there must not write any more.
- An engine notes until when its cores are lent, and whether it has prompts to compute. The threads of
  others read that before they take a piece of work on a core which is not theirs.
- A page's stamp changes each time the page gets new content. An engine that was granted a page under
  one stamp and finds another has lost it.
"""

from __future__ import annotations

from itertools import islice

SLOT_WORDS = 1024
WORD = 8
STAMP = 4
FOREVER = (1 << 64) - 1

OWNER, BEAT, LENT, PROMPTS, COUNT, IN_FLIGHT = range(6)
"""Places of a slot's words; from the last on, the step's requests follow, each with its tokens."""

MOST_IN_FLIGHT = (SLOT_WORDS - IN_FLIGHT) // 2


def board_bytes(engines: int, pages: int) -> int:
    """Bytes of a board for so many engines and pages."""
    return engines * SLOT_WORDS * WORD + pages * STAMP


class Board:
    """A view of the board in mapped memory, for any of the processes.

    `words` are those of all slots, `stamps` has one number per page. Times are nanoseconds of the
    host's monotonic clock.
    """

    def __init__(self, mapped: memoryview, engines: int) -> None:
        edge = engines * SLOT_WORDS * WORD
        self.words = mapped[:edge].cast("Q")
        self.stamps = mapped[edge:].cast("I")

    def slot(self, engine: int) -> Slot:
        """The notes of engine number `engine`."""
        return Slot(self.words[engine * SLOT_WORDS : (engine + 1) * SLOT_WORDS])


class Slot:
    """One engine's notes: its owner, its last sign of life, and the requests of the step under way."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    @property
    def owner(self) -> int:
        """The process that may use the slot, as a number the router gives out."""
        return self._words[OWNER]

    def open(self, owner: int, now: int) -> None:
        """A new process may use the slot; until it works, its cores are lent."""
        self._words[BEAT] = now
        self._words[LENT] = FOREVER
        self._words[PROMPTS] = 0
        self._words[COUNT] = 0
        self._words[OWNER] = owner

    @property
    def beat(self) -> int:
        """When the engine last gave a sign of life."""
        return self._words[BEAT]

    @beat.setter
    def beat(self, now: int) -> None:
        self._words[BEAT] = now

    @property
    def lent_until(self) -> int:
        """Until when others may use the engine's cores; 0 for not at all."""
        return self._words[LENT]

    @lent_until.setter
    def lent_until(self, time: int) -> None:
        self._words[LENT] = time

    @property
    def has_prompts(self) -> bool:
        """Whether the engine is computing prompts."""
        return self._words[PROMPTS] != 0

    @has_prompts.setter
    def has_prompts(self, value: bool) -> None:
        self._words[PROMPTS] = value

    @property
    def in_flight(self) -> dict[int, int]:
        """The requests of the step under way, with the tokens of each it computes; empty between steps."""
        words = self._words[IN_FLIGHT : IN_FLIGHT + 2 * min(self._words[COUNT], MOST_IN_FLIGHT)]
        return dict(zip(words[::2], words[1::2], strict=True))

    @in_flight.setter
    def in_flight(self, tokens: dict[int, int]) -> None:
        self._words[COUNT] = 0
        place = IN_FLIGHT
        for request, count in islice(tokens.items(), MOST_IN_FLIGHT):
            self._words[place] = request
            self._words[place + 1] = count
            place += 2
        self._words[COUNT] = (place - IN_FLIGHT) // 2
