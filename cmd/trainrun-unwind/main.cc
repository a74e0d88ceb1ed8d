// trainrun-unwind: reads captured processes from standard input, and writes their stacks to
// standard output, a message each (lib/stacks/stacks_codec.h). With --profile, it reads samples,
// and writes a profile of each message (lib/profile/profile_codec.h). A supervisor starts it; it is
// no command for users. It reads programs and debug information that anybody may have written, so
// it takes no more than its limits, and its end harms nobody.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "lib/profile/profile_builder.h"
#include "lib/profile/profile_codec.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/unwind/unwinder.h"
#include "lib/stacks/unwinder_process.h"

namespace {

using namespace train;

// Files are mapped completely: LibTorch with CUDA has several GiB. Twice that, and memory to work.
constexpr rlim_t kAddressSpaceMax = rlim_t{8} << 30;
constexpr rlim_t kProcessorSecondsMax = 30;
constexpr rlim_t kOutputBytesMax = 256u << 20;
constexpr int kNiceOfProfile = 10;
constexpr int kCaptures = STDIN_FILENO, kStacks = STDOUT_FILENO;  // bytes, no text
constexpr unsigned kWallSecondsMax = 120;                         // storage of the files may hang

void limit(int resource, rlim_t value) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  const rlimit most{std::min(now.rlim_cur, value), std::min(now.rlim_max, value)};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &most);
}

/// Be the first that the kernel kills for lack of memory; our parent may be protected from that.
void be_expendable() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)!::write(file, "1000", 4);
  ::close(file);
}

void limit_myself() {
  be_expendable();
  ::unsetenv("DEBUGINFOD_URLS");  // a server could make us wait
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kWallSecondsMax);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kProcessorSecondsMax);
  limit(RLIMIT_FSIZE, kOutputBytesMax);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
  limit(RLIMIT_AS, kAddressSpaceMax);
#endif
}

/// Read exactly so many bytes. Return false at the end of the input.
bool read_bytes(std::string& bytes, std::size_t size) {
  bytes.clear();
  while (bytes.size() < size) {
    char part[65536];
    const ssize_t count = ::read(kCaptures, part, std::min(sizeof part, size - bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.append(part, static_cast<std::size_t>(count));
  }
  return true;
}

bool write_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(kStacks, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Return what is to be written for a message, or an error if it is none.
Result<std::string> stacks_of(std::string_view payload, Unwinder& unwinder) {
  TRY(const ProcessCapture capture, decode_capture(payload));
  return encode_stacks(unwinder.unwind(capture));
}

Result<std::string> profile_of(std::string_view payload, Unwinder& unwinder) {
  TRY(const SampleBatch batch, decode_samples(payload));
  ProfileBuilder profile;
  const ProcessStacks stacks = unwinder.unwind(batch.process);
  if (batch.of_memory)
    profile.add_memory(stacks, batch.samples);
  else
    profile.add(stacks, batch.samples, batch.other_process);
  return encode_profile(std::move(profile).take());
}

}  // namespace

int main(int argc, char** argv) {
  limit_myself();
  const bool profile = argc == 2 && std::string_view(argv[1]) == kUnwindProfile;
  if (profile) (void)!::nice(kNiceOfProfile);  // beside training, for a minute
  Unwinder unwinder;
  for (std::string header, payload; read_bytes(header, kStackMessageHeaderBytes);) {
    const auto size = stack_message_size(header);
    if (!size || !read_bytes(payload, *size)) return 65;
    const auto answer = profile ? profile_of(payload, unwinder) : stacks_of(payload, unwinder);
    if (!answer) return 65;
    if (!write_bytes(stack_message_header(answer->size()) + *answer)) return 74;
  }
  return 0;
}
