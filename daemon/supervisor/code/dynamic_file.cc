#include "daemon/supervisor/code/dynamic_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace train {
namespace {

constexpr std::size_t kHeadersMax = 512, kDynamicBytesMax = 1u << 16, kNoteBytesMax = 1u << 14;
constexpr std::size_t kTextBytesMax = 4096, kNeededMax = 256;

std::string read_at(int fd, std::uint64_t offset, std::size_t bytes) {
  std::string data(bytes, '\0');
  if (offset > INT64_MAX - bytes) return "";
  const ssize_t got = ::pread(fd, data.data(), bytes, static_cast<off_t>(offset));
  data.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return data;
}

/// Return a little-endian number; 0 behind the end.
template <class Number>
Number number(std::string_view data, std::size_t at) {
  Number value = 0;
  if (at > data.size() || data.size() - at < sizeof(Number)) return 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    value = static_cast<Number>(value << 8 | static_cast<unsigned char>(data[at + i]));
  return value;
}

struct Segment {
  std::uint32_t type = 0;
  std::uint64_t offset = 0, address = 0, bytes = 0;
};

std::vector<Segment> read_segments(int fd, std::string_view header) {
  const auto offset = number<std::uint64_t>(header, offsetof(Elf64_Ehdr, e_phoff));
  const auto size = number<std::uint16_t>(header, offsetof(Elf64_Ehdr, e_phentsize));
  const auto count = std::min<std::size_t>(
      number<std::uint16_t>(header, offsetof(Elf64_Ehdr, e_phnum)), kHeadersMax);
  if (size != sizeof(Elf64_Phdr)) return {};
  const std::string table = read_at(fd, offset, count * size);
  std::vector<Segment> segments;
  for (std::size_t at = 0; at + size <= table.size(); at += size)
    segments.push_back({number<std::uint32_t>(table, at + offsetof(Elf64_Phdr, p_type)),
                        number<std::uint64_t>(table, at + offsetof(Elf64_Phdr, p_offset)),
                        number<std::uint64_t>(table, at + offsetof(Elf64_Phdr, p_vaddr)),
                        number<std::uint64_t>(table, at + offsetof(Elf64_Phdr, p_filesz))});
  return segments;
}

std::string read_build_id(int fd, const Segment& notes) {
  const std::string data =
      read_at(fd, notes.offset, std::min<std::uint64_t>(notes.bytes, kNoteBytesMax));
  const auto aligned = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; };
  for (std::uint64_t at = 0; at + 12 <= data.size();) {
    const auto name = number<std::uint32_t>(data, at);
    const auto bytes = number<std::uint32_t>(data, at + 4);
    const auto type = number<std::uint32_t>(data, at + 8);
    const std::uint64_t content = at + 12 + aligned(name);
    if (content + bytes > data.size()) break;
    if (type == NT_GNU_BUILD_ID &&
        std::string_view(data).substr(at + 12, 4) == std::string_view("GNU\0", 4)) {
      std::string hex;
      for (std::uint32_t i = 0; i < bytes; ++i) {
        const auto byte = static_cast<unsigned char>(data[content + i]);
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
      }
      return hex;
    }
    at = content + aligned(bytes);
  }
  return "";
}

/// The texts of the dynamic section, which lie in a loaded segment.
class Texts {
 public:
  Texts(int fd, const std::vector<Segment>& segments, std::uint64_t address) : fd_(fd) {
    for (const Segment& segment : segments)
      if (segment.type == PT_LOAD && address >= segment.address &&
          address - segment.address < segment.bytes)
        offset_ = segment.offset + (address - segment.address);
  }
  std::string at(std::uint64_t place) const {
    if (!offset_ || place > INT64_MAX / 2) return "";
    std::string text = read_at(fd_, *offset_ + place, kTextBytesMax);
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }

 private:
  int fd_;
  std::optional<std::uint64_t> offset_;
};

void read_dynamic(int fd, const std::vector<Segment>& segments, const Segment& dynamic,
                  DynamicFile& elf) {
  const std::string table =
      read_at(fd, dynamic.offset, std::min<std::uint64_t>(dynamic.bytes, kDynamicBytesMax));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;  // tag, value
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= table.size(); at += sizeof(Elf64_Dyn)) {
    const auto tag = number<std::uint64_t>(table, at);
    if (tag == DT_NULL) break;
    entries.emplace_back(tag, number<std::uint64_t>(table, at + 8));
  }
  const auto strings = std::find_if(entries.begin(), entries.end(),
                                    [](const auto& entry) { return entry.first == DT_STRTAB; });
  if (strings == entries.end()) return;
  const Texts texts(fd, segments, strings->second);
  for (const auto& [tag, value] : entries) {
    if (tag == DT_NEEDED && elf.needed.size() < kNeededMax) elf.needed.push_back(texts.at(value));
    if (tag == DT_SONAME) elf.soname = texts.at(value);
    if (tag == DT_RPATH) elf.rpath = texts.at(value);
    if (tag == DT_RUNPATH) elf.runpath = texts.at(value);
  }
  std::erase(elf.needed, "");
}

}  // namespace

FileDescriptor open_regular(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return FileDescriptor();
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

std::optional<DynamicFile> read_dynamic_file(int fd) {
  const std::string header = read_at(fd, 0, sizeof(Elf64_Ehdr));
  if (header.size() < sizeof(Elf64_Ehdr) || !header.starts_with(ELFMAG) ||
      header[EI_CLASS] != ELFCLASS64 || header[EI_DATA] != ELFDATA2LSB)
    return std::nullopt;
  DynamicFile elf{.machine = number<std::uint16_t>(header, offsetof(Elf64_Ehdr, e_machine))};
  const std::vector<Segment> segments = read_segments(fd, header);
  for (const Segment& segment : segments) {
    if (segment.type == PT_NOTE && elf.build_id.empty()) elf.build_id = read_build_id(fd, segment);
    if (segment.type != PT_DYNAMIC) continue;
    elf.is_dynamic = true;
    read_dynamic(fd, segments, segment, elf);
  }
  return elf;
}

}  // namespace train
