#include "launcher/bundle/run_files.h"

#include <algorithm>

#include "lib/storage/posix_file_system.h"
#include "lib/transfer/open_beneath.h"

namespace train {
namespace {

constexpr int kDepthMax = 6;
constexpr std::size_t kNotesMax = 1'000;
constexpr std::size_t kReadBytes = 1u << 20;
constexpr std::size_t kSecretBytesMax = 64u << 10;  // of one that stands in one line

class Lister {
 public:
  Lister(const std::string& folder, const std::function<bool(std::string_view)>& enter)
      : folder_(folder), enter_(enter) {}

  RunFiles run() {
    list("", 0);
    return std::move(found_);
  }

 private:
  void note(std::string text) {
    if (found_.notes.size() < kNotesMax) found_.notes.push_back(std::move(text));
  }

  void list(const std::string& below, int depth) {
    const auto entries = files_.list(below.empty() ? folder_ : join_path(folder_, below));
    if (!entries) return note(entries.error().describe());
    for (const FolderEntry& entry : *entries) {
      const std::string path = below.empty() ? entry.name : join_path(below, entry.name);
      if (entry.kind == FileKind::Other) note(path + ": no regular file");
      if (entry.kind == FileKind::File) add(path);
      if (entry.kind == FileKind::Folder && enter_(path) && depth < kDepthMax)
        list(path, depth + 1);
    }
  }

  void add(const std::string& path) {
    if (found_.files.size() == kRunFilesMax) {
      if (!full_) note("the folder has more files; they are left out");
      full_ = true;
      return;
    }
    const auto status = files_.status(join_path(folder_, path));
    if (!status) return note(status.error().describe());
    if (status->kind != FileKind::File) return note(path + ": no regular file");
    found_.files.push_back({path, status->bytes});
  }

  const std::string& folder_;
  const std::function<bool(std::string_view)>& enter_;
  PosixFileSystem files_;
  RunFiles found_;
  bool full_ = false;
};

}  // namespace

RunFiles list_run_files(const std::string& folder,
                        const std::function<bool(std::string_view)>& enter) {
  return Lister(folder, enter).run();
}

ReadPart read_run_file(const std::string& folder, const std::string& path, std::uint64_t offset,
                       std::uint64_t bytes) {
  ReadPart part;
  while (part.text.size() < bytes) {
    const std::size_t size = std::min<std::uint64_t>(kReadBytes, bytes - part.text.size());
    auto piece = read_beneath(folder, path, offset + part.text.size(), size);
    if (!piece) {
      part.problem = piece.error().describe();
      break;
    }
    if (piece->data.empty()) break;
    part.text += piece->data;
  }
  return part;
}

std::string_view without_cut_end(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  if (end != text.npos && text.size() - end <= kSecretBytesMax) return text.substr(0, end + 1);
  return text.substr(0, text.size() - std::min(text.size(), kSecretBytesMax));
}

std::string_view without_cut_begin(std::string_view text) {
  const std::size_t end = text.find('\n');
  return text.substr(std::min(text.size(), end < kSecretBytesMax ? end + 1 : kSecretBytesMax));
}

}  // namespace train
