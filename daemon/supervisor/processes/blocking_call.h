// Tells in which system call on a file a process waits, as people want to read it: "read of
// '/data/x.parquet' (nfs4 at /data)".
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace train {

/// Return in which call the first thread of a process that does not run waits for a file, a pipe or
/// a socket; "" for other calls, and if the kernel does not say it. At most 256 bytes of UTF-8.
/// Does not block, whatever the process waits for.
std::string blocking_call(pid_t pid);

/// The mount with the longest path that holds `path`: "nfs4 at /data"; "" if none does.
/// `mountinfo`: the text of /proc/PID/mountinfo.
std::string mount_of(std::string_view mountinfo, std::string_view path);

}  // namespace train
