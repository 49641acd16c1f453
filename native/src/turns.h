#pragma once

namespace twinfer {

// Sets how many seconds the calling thread, and those that it starts from now on, keep a core that others
// want (Linux 6.12, 0.1 to 100 ms): one with shorter turns than the running thread's gets the core when it
// wakes, instead of at the end of that one's turn. Systems that know no such thing refuse, and nothing
// changes.
void take_turns(double seconds);

}  // namespace twinfer
