// Names of functions at an address: from debug information, with the inlined ones and their lines,
// else from the symbol table. Results are kept by file, so that 64 workers that run the same code
// cost little more than one.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/stacks/process_stacks.h"
#include "lib/stacks/unwind/dwfl_session.h"
#include "lib/stacks/unwind/symbol_index.h"

namespace train {

class FrameNames {
 public:
  explicit FrameNames(const OpenMappedFile& open) : open_(open) {}

  /// Return the frames of a raw one, innermost first: at least one, maybe without a function.
  std::vector<StackFrame> frames_of(const RawFrame& raw, DwflSession& session,
                                    const ProcessCapture& capture);

 private:
  struct File {
    bool indexed = false;
    SymbolIndex symbols{};
    std::unordered_map<std::uint64_t, std::vector<StackFrame>> frames{};  // by address in the file
  };
  std::string symbol_name(File& file, const CodeModule& module, std::uint64_t address,
                          const ProcessCapture& capture);
  std::vector<StackFrame> lookup(File& file, const CodeModule& module, std::uint64_t address,
                                 std::uint64_t bias, const ProcessCapture& capture);

  const OpenMappedFile& open_;
  std::map<std::string, File> files_;  // by build id, else by device and inode
};

/// Return a readable name, of at most kFunctionNameBytesMax bytes.
std::string demangled(std::string_view symbol);

}  // namespace train
