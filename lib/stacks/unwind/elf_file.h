// An open ELF file.
#pragma once

#include <libelf.h>

#include <memory>
#include <string>
#include <utility>

#include "lib/base/file_descriptor.h"

namespace train {

class ElfFile {
 public:
  ElfFile() = default;
  /// Read the file of a descriptor; get() is nullptr if it has none.
  explicit ElfFile(FileDescriptor file) : file_(std::move(file)) {
    elf_version(EV_CURRENT);
    if (file_.get() >= 0) elf_ = elf_begin(file_.get(), ELF_C_READ_MMAP, nullptr);
  }
  /// Read a file that is in memory, of which it keeps a copy.
  explicit ElfFile(const std::string& bytes) : bytes_(std::make_unique<std::string>(bytes)) {
    elf_version(EV_CURRENT);
    elf_ = elf_memory(bytes_->data(), bytes_->size());
  }
  ElfFile(ElfFile&& other) noexcept
      : file_(std::move(other.file_)),
        bytes_(std::move(other.bytes_)),
        elf_(std::exchange(other.elf_, nullptr)) {}
  ElfFile& operator=(ElfFile&&) = delete;
  ~ElfFile() { elf_end(elf_); }

  Elf* get() const { return elf_; }

 private:
  FileDescriptor file_;
  std::unique_ptr<std::string> bytes_;
  Elf* elf_ = nullptr;
};

}  // namespace train
