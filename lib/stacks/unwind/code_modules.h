// The files that a captured process has mapped as code, and their contents as far as they are
// needed. Only the file that was mapped is ever read: its device and inode are compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/stacks/process_capture.h"

struct Dwfl_Module;

namespace train {

/// A file as it is mapped, from its first mapping to its last.
struct CodeModule {
  std::uint64_t start = 0, end = 0;
  const MappedRange* first = nullptr;
  std::string name{};                  // the path without its folder
  const std::string* bytes = nullptr;  // the vDSO's code; else a file has it
  Dwfl_Module* dwfl = nullptr;         // once DwflSession knows it
};

/// Opens the file of a mapping, or returns none.
using OpenMappedFile = std::function<FileDescriptor(const ProcessCapture&, const MappedRange&)>;

/// Open the file that a process has mapped: by its path as the process sees it, and if the file was
/// deleted, by what /proc still holds of it. Never waits for a pipe or a device.
FileDescriptor open_mapped_file(const ProcessCapture& capture, const MappedRange& range);

/// Where the code of a process is.
class CodeModules {
 public:
  explicit CodeModules(const ProcessCapture& capture);

  std::vector<CodeModule>& all() { return modules_; }
  /// Return the module at an address, or nullptr.
  CodeModule* at(std::uint64_t address);
  /// Return whether code can be executed at an address: of a module, or made by the process itself.
  bool executable(std::uint64_t address) const;

 private:
  const ProcessCapture& capture_;
  std::vector<CodeModule> modules_;             // ascending
  std::vector<const MappedRange*> executable_;  // ascending
};

}  // namespace train
