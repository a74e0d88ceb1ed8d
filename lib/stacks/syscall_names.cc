#include "lib/stacks/syscall_names.h"

#include <fmt/format.h>
#include <sys/syscall.h>

namespace train {
namespace {

struct Call {
  long number;
  const char* name;
};

#define TRAIN_CALL(name) \
  Call { SYS_##name, #name }
constexpr Call kCalls[] = {
    TRAIN_CALL(read),
    TRAIN_CALL(write),
    TRAIN_CALL(openat),
    TRAIN_CALL(close),
    TRAIN_CALL(lseek),
    TRAIN_CALL(mmap),
    TRAIN_CALL(mprotect),
    TRAIN_CALL(munmap),
    TRAIN_CALL(brk),
    TRAIN_CALL(madvise),
    TRAIN_CALL(msync),
    TRAIN_CALL(ioctl),
    TRAIN_CALL(fcntl),
    TRAIN_CALL(flock),
    TRAIN_CALL(pread64),
    TRAIN_CALL(pwrite64),
    TRAIN_CALL(readv),
    TRAIN_CALL(writev),
    TRAIN_CALL(preadv),
    TRAIN_CALL(pwritev),
    TRAIN_CALL(sendfile),
    TRAIN_CALL(splice),
    TRAIN_CALL(copy_file_range),
    TRAIN_CALL(fsync),
    TRAIN_CALL(fdatasync),
    TRAIN_CALL(sync),
    TRAIN_CALL(syncfs),
    TRAIN_CALL(sync_file_range),
    TRAIN_CALL(ftruncate),
    TRAIN_CALL(fallocate),
    TRAIN_CALL(fstat),
    TRAIN_CALL(newfstatat),
    TRAIN_CALL(statx),
    TRAIN_CALL(statfs),
    TRAIN_CALL(getdents64),
    TRAIN_CALL(unlinkat),
    TRAIN_CALL(renameat2),
    TRAIN_CALL(mkdirat),
    TRAIN_CALL(faccessat),
    TRAIN_CALL(ppoll),
    TRAIN_CALL(pselect6),
    TRAIN_CALL(epoll_pwait),
    TRAIN_CALL(io_uring_enter),
    TRAIN_CALL(io_getevents),
    TRAIN_CALL(socket),
    TRAIN_CALL(connect),
    TRAIN_CALL(accept),
    TRAIN_CALL(accept4),
    TRAIN_CALL(sendto),
    TRAIN_CALL(recvfrom),
    TRAIN_CALL(sendmsg),
    TRAIN_CALL(recvmsg),
    TRAIN_CALL(sendmmsg),
    TRAIN_CALL(recvmmsg),
    TRAIN_CALL(nanosleep),
    TRAIN_CALL(clock_nanosleep),
    TRAIN_CALL(futex),
    TRAIN_CALL(sched_yield),
    TRAIN_CALL(restart_syscall),
    TRAIN_CALL(rt_sigtimedwait),
    TRAIN_CALL(rt_sigsuspend),
    TRAIN_CALL(wait4),
    TRAIN_CALL(waitid),
    TRAIN_CALL(clone),
    TRAIN_CALL(clone3),
    TRAIN_CALL(execve),
    TRAIN_CALL(exit_group),
    TRAIN_CALL(ptrace),
    TRAIN_CALL(semtimedop),
    TRAIN_CALL(semop),
    TRAIN_CALL(msgrcv),
    TRAIN_CALL(mq_timedreceive),
#ifdef SYS_futex_waitv
    TRAIN_CALL(futex_waitv),
#endif
// Calls that processors of a later design than x86 do without.
#ifdef SYS_poll
    TRAIN_CALL(open),
    TRAIN_CALL(poll),
    TRAIN_CALL(select),
    TRAIN_CALL(epoll_wait),
    TRAIN_CALL(pause),
    TRAIN_CALL(stat),
    TRAIN_CALL(lstat),
    TRAIN_CALL(access),
    TRAIN_CALL(rename),
    TRAIN_CALL(unlink),
    TRAIN_CALL(mkdir),
    TRAIN_CALL(rmdir),
    TRAIN_CALL(fork),
    TRAIN_CALL(vfork),
    TRAIN_CALL(readlink),
#endif
};
#undef TRAIN_CALL

}  // namespace

std::string syscall_name(long number) {
  for (const Call& call : kCalls) {
    if (call.number == number) return call.name;
  }
  return fmt::format("call {}", number);
}

}  // namespace train
