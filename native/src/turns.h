#pragma once

namespace twinfer {

// Asks for short turns on the core (Linux 6.12) for every thread that the process has, and those that they
// start: a thread with shorter turns than the running one gets the core as soon as it wakes, instead of at
// the end of that one's turn. Systems that know no such thing refuse, and nothing changes.
void take_short_turns();

}  // namespace twinfer
