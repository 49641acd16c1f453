#include "turns.h"

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace twinfer {

void take_turns([[maybe_unused]] double seconds) {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    struct {  // sched_attr of the kernel, which the C library may not declare
        uint32_t size = 48, policy = SCHED_OTHER;
        uint64_t flags = 0;
        int32_t nice = 0;
        uint32_t priority = 0;
        uint64_t runtime = 0, deadline = 0, period = 0;
    } now;
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0U) != 0) return;
    if (now.policy != SCHED_OTHER && now.policy != SCHED_BATCH) return;
    now.runtime = static_cast<uint64_t>(seconds * 1e9);
    syscall(SYS_sched_setattr, 0, &now, 0U);
#endif
}

}  // namespace twinfer
