#include "lib/stacks/core_image.h"

#include <elf.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace train {
namespace {

constexpr std::size_t kNoteBytesMax = 16u << 20;
constexpr std::uint64_t kRedZoneBytes = 128;  // below the stack pointer (the ABI)
constexpr std::string_view kName("CORE\0", 5);

std::string read_bytes(int file, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

/// Copy a value from the front of `bytes`. Return false if they are too few.
template <class T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

class CoreReader {
 public:
  explicit CoreReader(int file) : file_(file) {}

  std::optional<CoreImage> read() {
    std::string_view header = begin_ = read_bytes(file_, 0, sizeof(Elf64_Ehdr));
    Elf64_Ehdr elf{};
    if (!take(header, elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_type != ET_CORE ||
        elf.e_phentsize != sizeof(Elf64_Phdr))
      return std::nullopt;
    table_ = read_bytes(file_, elf.e_phoff, std::size_t{elf.e_phnum} * sizeof(Elf64_Phdr));
    for (std::string_view rest = table_; !rest.empty();) {
      Elf64_Phdr segment{};
      if (!take(rest, segment)) break;
      (segment.p_type == PT_NOTE ? notes_ : memory_).push_back(segment);
    }
    image_.process.ended = true;
    image_.process.machine = elf.e_machine;
    for (const Elf64_Phdr& segment : notes_)
      read_notes(read_bytes(file_, segment.p_offset,
                            std::min<std::uint64_t>(segment.p_filesz, kNoteBytesMax)));
    if (image_.pid <= 0) return std::nullopt;
    image_.process.pid = image_.pid;
    return std::move(image_);
  }

 private:
  void read_notes(std::string_view notes) {
    const auto part = [&notes](std::size_t size) {
      const std::string_view bytes = notes.substr(0, size);
      notes.remove_prefix(std::min((size + 3) / 4 * 4, notes.size()));
      return bytes;
    };
    Elf64_Nhdr note{};
    while (take(notes, note)) {
      const std::string_view name = part(note.n_namesz), data = part(note.n_descsz);
      if (name != kName) continue;
      if (note.n_type == NT_PRPSINFO) read_process(data);
      if (note.n_type == NT_PRSTATUS && image_.process.threads.empty()) read_thread(data);
      if (note.n_type == NT_FILE) read_files(data);
    }
  }

  void read_process(std::string_view data) {
    elf_prpsinfo process{};
    if (take(data, process)) image_.pid = process.pr_pid;
  }

  // The first thread is the one that crashed.
  void read_thread(std::string_view data) {
#if defined(__x86_64__)
    elf_prstatus status{};
    if (!take(data, status) || image_.process.machine != EM_X86_64) return;
    // Of user_regs_struct, in the order of the DWARF numbers (System V ABI, AMD64, figure 3.36).
    constexpr std::size_t kOrder[] = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16};
    constexpr std::size_t kStackPointer = 7;
    ThreadCapture thread;
    thread.facts.tid = status.pr_pid;
    for (const std::size_t place : kOrder) thread.registers.push_back(status.pr_reg[place]);
    thread.pc = thread.registers.back();
    thread.sp = thread.registers[kStackPointer];
    thread.stack_start = thread.sp - std::min(thread.sp, kRedZoneBytes);
    for (const Elf64_Phdr& segment : memory_) {
      if (segment.p_type != PT_LOAD || thread.sp < segment.p_vaddr ||
          thread.sp - segment.p_vaddr >= segment.p_filesz)
        continue;
      thread.stack_start = std::max<std::uint64_t>(thread.stack_start, segment.p_vaddr);
      const std::uint64_t before = thread.stack_start - segment.p_vaddr;
      thread.stack =
          read_bytes(file_, segment.p_offset + before,
                     std::min<std::uint64_t>(segment.p_filesz - before, kCapturedStackBytesMax));
    }
    image_.process.threads.push_back(std::move(thread));
#else
    (void)data;
#endif
  }

  /// NT_FILE: a count, the size of a page, so many ranges, and their paths.
  void read_files(std::string_view data) {
    std::uint64_t count = 0, page = 0;
    if (!take(data, count) || !take(data, page) || count > data.size() / 24) return;
    std::string_view paths = data.substr(count * 24);
    struct stat core {};
    ::fstat(file_, &core);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, kCapturedMappingsMax); ++i) {
      MappedRange range;
      std::uint64_t pages = 0;
      if (!take(data, range.start) || !take(data, range.end) || !take(data, pages)) return;
      range.offset = pages * page;
      const std::size_t length = std::min(paths.find('\0'), paths.size());
      range.path = paths.substr(0, std::min(length, kMappingPathBytesMax));
      paths.remove_prefix(std::min(length + 1, paths.size()));
      range.executable = std::any_of(memory_.begin(), memory_.end(), [&](const Elf64_Phdr& one) {
        return one.p_vaddr == range.start && (one.p_flags & PF_X) != 0;
      });
      struct stat found {};
      if (::stat(range.path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) ||
          found.st_ctim.tv_sec > core.st_ctim.tv_sec)
        continue;
      range.device = found.st_dev;
      range.inode = found.st_ino;
      image_.process.mappings.push_back(std::move(range));
    }
  }

  const int file_;
  std::string begin_, table_;
  std::vector<Elf64_Phdr> notes_, memory_;
  CoreImage image_;
};

}  // namespace

std::optional<CoreImage> read_core_image(int file) { return CoreReader(file).read(); }

}  // namespace train
