// Runs trainrun-unwind over a file of captures.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/stacks/child_process.h"

namespace train {

struct UnwinderOutput {
  std::string messages{};  // each complete as soon as it was written, so also those before a crash
  std::string trouble{};   // why there may be too few of them; empty: it ended well
};

/// Make a file in memory, which no path leads to.
Result<FileDescriptor> memory_file(const char* name);
Result<Unit> append_to(const FileDescriptor& file, std::string_view bytes);

/// Run the program with `captures` as its standard input until it ends, or kill it at `deadline`.
Result<UnwinderOutput> run_unwinder(const std::string& program, const FileDescriptor& captures,
                                    TimePoint deadline);

/// The argument with which the program takes samples (lib/profile/profile_codec.h), and writes a
/// profile of each message.
inline constexpr const char* kUnwindProfile = "--profile";

/// The program while it runs, and gets its input piece by piece. It is killed at the end.
class UnwinderStream {
 public:
  static Result<UnwinderStream> start(const std::string& program, const char* argument);

  /// Write all of `bytes`, or fail: it has ended, or does not read until `deadline`.
  Result<Unit> write(std::string_view bytes, TimePoint deadline);
  /// End its input, and wait until it ends; kill it at `deadline`. Call this once.
  UnwinderOutput finish(TimePoint deadline);

 private:
  UnwinderStream(ChildProcess child, FileDescriptor input, FileDescriptor output)
      : child_(std::move(child)), input_(std::move(input)), output_(std::move(output)) {}

  ChildProcess child_;
  FileDescriptor input_, output_;
};

}  // namespace train
