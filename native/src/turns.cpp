#include "turns.h"

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#endif

namespace twinfer {
namespace {

#ifdef SYS_sched_setattr
constexpr uint64_t kTurn = 100'000;  // nanoseconds, the shortest that Linux grants

void shorten(id_t thread) {
    struct {  // sched_attr of the kernel, which the C library may not declare
        uint32_t size = 48, policy = SCHED_OTHER;
        uint64_t flags = 0;
        int32_t nice = 0;
        uint32_t priority = 0;
        uint64_t runtime = kTurn, deadline = 0, period = 0;
    } turns;
    turns.nice = getpriority(PRIO_PROCESS, thread);
    syscall(SYS_sched_setattr, thread, &turns, 0U);
}
#endif

}  // namespace

void take_short_turns() {
#ifdef SYS_sched_setattr
    std::error_code none;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none))
        shorten(static_cast<id_t>(std::atol(task.path().filename().c_str())));
#endif
}

}  // namespace twinfer
