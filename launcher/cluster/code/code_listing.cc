#include "launcher/cluster/code/code_listing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "launcher/core/path_rules.h"
#include "lib/base/size_text.h"
#include "lib/storage/code_manifest.h"
#include "lib/storage/manifest.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kIgnoreFileBytesMax = 1u << 20;
constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kLargestShown = 5;
constexpr std::size_t kLinksShown = 3;

/// Return whether the folder with these entries is that of a run, or of a sweep.
bool has_results(const std::vector<FolderEntry>& entries) {
  const auto has = [&](std::string_view name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const FolderEntry& entry) { return entry.name == name; });
  };
  return (has("events.jsonl") && has("spec.resolved.yaml")) || has("sweep.jsonl");
}

/// Return the path below `folder`; nothing if it is not inside.
std::optional<std::string> below(const std::string& folder, const std::string& path) {
  const std::string relative = fs::path(path).lexically_relative(folder).string();
  if (relative.empty() || relative == "." || relative == ".." || relative.starts_with("../"))
    return std::nullopt;
  return relative;
}

class CodeWalk {
 public:
  explicit CodeWalk(const JobSpec& spec) : spec_(spec), root_(spec.working_dir) {
    for (const std::string& pattern : spec.ship.files) chosen_.add(pattern);
  }

  Result<CodeListing> run() {
    if (chosen_.empty()) {
      const bool own = files_.status(join_path(root_, ".trainignore")).has_value();
      ignore_name_ = own ? ".trainignore" : ".gitignore";
    }
    TRY_VOID(walk("", 0));
    TRY_VOID(add_programs());
    if (listing_.files.empty())
      return Error{Errc::InvalidSpec, fmt::format("ship: no file of '{}' is to be shipped", root_),
                   "look at the patterns of `ship`, or at .trainignore"};
    TRY_VOID(check_size());
    std::sort(listing_.files.begin(), listing_.files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    note_links();
    return std::move(listing_);
  }

 private:
  Result<Unit> walk(const std::string& folder, std::size_t depth) {
    const std::string path = folder.empty() ? root_ : join_path(root_, folder);
    if (depth > kDepthMax)
      return Error{Errc::InvalidSpec,
                   fmt::format("ship: '{}' is more than {} folders deep", path, kDepthMax),
                   "leave it out in .trainignore"};
    auto entries = files_.list(path);
    if (entries.has_error()) return std::move(entries).error().with_context("ship");
    if (has_results(*entries)) return Unit{};
    TRY(const bool has_rules, read_rules(folder, path));
    for (const FolderEntry& entry : *entries) {
      if (entry.name == ".git") continue;
      const std::string relative = folder.empty() ? entry.name : join_path(folder, entry.name);
      if (entry.kind == FileKind::Folder) {
        const bool results = join_path(root_, relative) == spec_.run_config.storage_path;
        if (results || is_left_out(relative, true)) continue;
        TRY_VOID(walk(relative, depth + 1));
      } else if (!is_left_out(relative, false)) {
        TRY_VOID(add(relative));
      }
    }
    if (has_rules) ignored_.pop_back();
    return Unit{};
  }

  Result<bool> read_rules(const std::string& folder, const std::string& path) {
    if (ignore_name_.empty()) return false;
    const auto text = read_small_file(files_, join_path(path, ignore_name_), kIgnoreFileBytesMax);
    if (text.has_error()) {
      if (text.error().code == Errc::NotFound) return false;
      return Error(text.error()).with_context("ship");
    }
    ignored_.emplace_back(folder, PathRules());
    ignored_.back().second.add_lines(*text);
    return true;
  }

  /// Of ignored files, return whether the path is one. With patterns, return whether it is a file
  /// that none of them chooses: files of a chosen folder are chosen.
  bool is_left_out(const std::string& path, bool is_folder) const {
    if (!chosen_.empty()) return !is_folder && !is_chosen(path);
    for (auto rules = ignored_.rbegin(); rules != ignored_.rend(); ++rules) {
      const auto& [folder, lines] = *rules;
      const auto verdict = lines.matches(
          std::string_view(path).substr(folder.empty() ? 0 : folder.size() + 1), is_folder);
      if (verdict) return *verdict;
    }
    return false;
  }

  bool is_chosen(std::string_view path) const {
    bool is_folder = false;
    for (;;) {
      if (const auto verdict = chosen_.matches(path, is_folder)) return *verdict;
      const std::size_t slash = path.rfind('/');
      if (slash == std::string_view::npos) return false;
      path = path.substr(0, slash);
      is_folder = true;
    }
  }

  Result<Unit> add(const std::string& relative) {
    const std::string path = join_path(root_, relative);
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) {
      if (errno == ENOENT || errno == ELOOP) return Unit{};  // a link to nowhere, or just removed
      return system_error(errno, "ship: looking at " + path);
    }
    if (S_ISDIR(found.st_mode)) folder_links_.push_back(relative);
    if (!S_ISREG(found.st_mode)) return Unit{};
    if (auto checked = check_code_path(relative); !checked)
      return Error{Errc::InvalidSpec, "ship: " + checked.error().message, checked.error().hint};
    if (listing_.files.size() == kCodeFilesMax)
      return Error{Errc::InvalidSpec,
                   fmt::format("ship: '{}' has more than {} files; {}", root_, kCodeFilesMax,
                               largest(&Part::files)),
                   "name what is needed, such as `ship: [src, train.py]`, or leave folders out in "
                   ".trainignore"};
    const auto bytes = static_cast<std::uint64_t>(found.st_size);
    listing_.files.push_back({relative, bytes, (found.st_mode & 0111) != 0});
    listing_.bytes += bytes;
    Part& part = parts_[relative.substr(0, relative.find('/'))];
    part.bytes += bytes;
    ++part.files;
    return Unit{};
  }

  /// Add the files that the commands name, unless they are there.
  Result<Unit> add_programs() {
    for (const auto* command : {&spec_.command, &spec_.per_node_setup.command}) {
      for (const std::string& word : *command) {
        if (word.empty() || word.front() == '-') continue;
        const bool absolute = word.front() == '/';
        const std::string path =
            fs::path(absolute ? word : join_path(root_, word)).lexically_normal().string();
        const auto relative = below(root_, path);
        std::error_code ec;
        if (!relative || !fs::is_regular_file(path, ec)) continue;
        if (absolute) {
          listing_.warnings.push_back(fmt::format(
              "'{}' is an absolute path, which nodes look up as it is; '{}' names what is shipped",
              word, "./" + *relative));
          continue;
        }
        const bool there = std::any_of(listing_.files.begin(), listing_.files.end(),
                                       [&](const auto& file) { return file.path == *relative; });
        if (!there) TRY_VOID(add(*relative));
      }
    }
    return Unit{};
  }

  Result<Unit> check_size() const {
    if (listing_.bytes <= spec_.ship.bytes_max) return Unit{};
    return Error{Errc::InvalidSpec,
                 fmt::format("ship: the files of '{}' have {}, more than the {} that ship.max "
                             "allows; {}",
                             root_, size_text(listing_.bytes), size_text(spec_.ship.bytes_max),
                             largest(&Part::bytes)),
                 "name what is needed, such as `ship: [src, train.py]`, leave folders out in "
                 ".trainignore, or raise ship.max"};
  }

  struct Part {  // of what lies directly in working_dir
    std::uint64_t bytes = 0, files = 0;
  };
  std::string largest(std::uint64_t Part::*by) const {
    std::vector<std::pair<std::string, Part>> parts(parts_.begin(), parts_.end());
    std::sort(parts.begin(), parts.end(),
              [&](const auto& a, const auto& b) { return a.second.*by > b.second.*by; });
    parts.resize(std::min(parts.size(), kLargestShown));
    std::string text = "the largest: ";
    for (const auto& [name, part] : parts)
      text += fmt::format(
          "{}{} ({})", text.ends_with(' ') ? "" : ", ", escape_name(name),
          by == &Part::bytes ? size_text(part.bytes) : fmt::format("{} files", part.files));
    return text;
  }

  void note_links() {
    if (folder_links_.empty()) return;
    const std::size_t shown = std::min(folder_links_.size(), kLinksShown);
    std::string names;
    for (std::size_t i = 0; i < shown; ++i)
      names += fmt::format("{}'{}'", i == 0 ? "" : ", ", escape_name(folder_links_[i]));
    listing_.warnings.push_back(fmt::format(
        "links to folders are not shipped: {}{}", names,
        folder_links_.size() > shown ? fmt::format(" and {} more", folder_links_.size() - shown)
                                     : ""));
  }

  const JobSpec& spec_;
  const std::string root_;
  PosixFileSystem files_;
  std::string ignore_name_;  // empty: none is read
  PathRules chosen_;
  std::vector<std::pair<std::string, PathRules>> ignored_;  // of the folders above, by folder
  std::map<std::string, Part> parts_;
  std::vector<std::string> folder_links_;
  CodeListing listing_;
};

}  // namespace

Result<CodeListing> list_code(const JobSpec& spec) { return CodeWalk(spec).run(); }

}  // namespace train
