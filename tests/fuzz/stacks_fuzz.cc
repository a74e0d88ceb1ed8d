// Runs the unwinder over captures of a process that would harm it: any registers, stacks and
// mappings. Each file that the capture names is this program, so that there is code to walk
// through.
#include <fcntl.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/stacks/stack_classes.h"
#include "lib/stacks/stack_json.h"
#include "lib/stacks/stack_text.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/unwind/unwinder.h"

namespace {

using namespace train;

void require(bool holds) {
  if (!holds) std::abort();
}

FileDescriptor open_myself(const ProcessCapture&, const MappedRange&) {
  return FileDescriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
}

void check(const ProcessStacks& stacks) {
  for (const ThreadStack& thread : stacks.threads) {
    require(thread.frames.size() <= kStackFramesMax);
    for (const StackFrame& frame : thread.frames)
      require(frame.function.size() <= kFunctionNameBytesMax);
  }
  const auto again = decode_stacks(encode_stacks(stacks));
  require(again.has_value() && encode_stacks(*again) == encode_stacks(stacks));
  const std::vector<RankStacks> ranks{{.rank = 0, .node = "node", .process = stacks}};
  for (const char c : describe_stacks(ranks)) require(c == '\n' || c == '\t' || c < 0 || c >= ' ');
  (void)stacks_json(ranks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto stacks = decode_stacks(input)) check(*stacks);
  const auto capture = decode_capture(input);
  if (!capture) return 0;
  const auto again = decode_capture(encode_capture(*capture));
  require(again.has_value() && *again == *capture);
  static Unwinder unwinder(open_myself);
  check(unwinder.unwind(*capture));
  return 0;
}
