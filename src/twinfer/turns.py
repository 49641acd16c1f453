"""How long threads keep a core that others want, by what they do.

A thread that wakes gets its core at once from one with longer turns, else when that one's turn is over, which
the system looks at every few milliseconds. So what is short and waited for comes before what takes long.
"""

from __future__ import annotations

from twinfer._native import take_turns

__all__ = ["BORROWING", "CARRYING", "COMPUTING", "take_turns"]

CARRYING = 0.0001
"""Seconds of who passes messages and tokens on."""

COMPUTING = 0.001
"""Seconds of who takes an engine's steps."""

BORROWING = 0.01
"""Seconds of who helps with them, as a rule on a core that another engine lends."""
