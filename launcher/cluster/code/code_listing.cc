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
constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kLargestShown = 5;
constexpr std::size_t kLinksShown = 3;
constexpr std::size_t kPatternsShown = 5;
constexpr std::uint64_t kNamedBytesMax = 64u << 20;  // larger ones, but programs, are data
constexpr std::size_t kWordsMax = 1000;              // of commands, that are looked up

/// Return whether the folder with these entries is that of a run, or of a sweep.
bool has_results(const std::vector<FolderEntry>& entries) {
  const auto has = [&](std::string_view name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const FolderEntry& entry) { return entry.name == name; });
  };
  return has("spec.resolved.yaml") && (has("events.jsonl") || has("sweep.jsonl"));
}

/// Return the words that may be files: of a line for a shell, those between its blanks, quotes and
/// operators. Of --option=FILE and of FILE:NAME, a loop of a driver, the file.
std::vector<std::string> words_of(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  const bool line = command.size() == 3 && command[0] == "/bin/sh" && command[1] == "-c";
  const auto add = [&](std::string_view word) {
    if (word.starts_with('-')) word.remove_prefix(std::min(word.find('='), word.size() - 1) + 1);
    if (word.empty()) return;
    words.emplace_back(word);
    if (const auto colon = word.find(':'); colon != word.npos && colon > 0)
      words.emplace_back(word.substr(0, colon));
  };
  if (!line) {
    for (const std::string& word : command) add(word);
    return words;
  }
  constexpr std::string_view kBetween = " \t\n'\"`;|&<>()=";
  for (std::string_view rest = command[2]; !rest.empty() && words.size() < kWordsMax;) {
    const std::size_t end = std::min(rest.find_first_of(kBetween), rest.size());
    add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
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
  CodeWalk(const JobSpec& spec, const std::function<bool()>& stopped)
      : spec_(spec), stopped_(stopped), root_(spec.working_dir) {
    for (const std::string& pattern : spec.ship.files) {
      chosen_.add(pattern);
      if (pattern.starts_with('!')) continue;
      unmatched_.emplace_back(pattern, PathRules());
      unmatched_.back().second.add(pattern);
    }
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
                   chosen_.empty() ? "look at " + ignore_name_ : "look at the patterns of `ship`"};
    TRY_VOID(check_size());
    std::sort(listing_.files.begin(), listing_.files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    note_links();
    note_unmatched();
    return std::move(listing_);
  }

 private:
  Result<Unit> walk(const std::string& folder, std::size_t depth) {
    const std::string path = folder.empty() ? root_ : join_path(root_, folder);
    if (depth > kDepthMax)
      return Error{Errc::InvalidSpec,
                   fmt::format("ship: '{}' is more than {} folders deep", path, kDepthMax),
                   how_to_leave_out()};
    auto entries = files_.list(path);
    if (entries.has_error()) return cannot_list(folder, entries.error());
    if (!folder.empty() && has_results(*entries)) return Unit{};
    TRY(const bool has_rules, read_rules(folder, path));
    for (const FolderEntry& entry : *entries) {
      if (stopped_()) return Error{Errc::Cancelled, "the list of the code is no longer needed"};
      if (entry.name == ".git") continue;
      const std::string relative = folder.empty() ? entry.name : join_path(folder, entry.name);
      std::erase_if(unmatched_, [&](const auto& pattern) {
        return pattern.second.matches(relative, entry.kind == FileKind::Folder).has_value();
      });
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

  /// A folder of which nothing may be wanted is left out; one that has just been removed is none.
  Result<Unit> cannot_list(const std::string& folder, const Error& error) {
    if (!folder.empty() && error.code == Errc::NotFound) return Unit{};
    const bool wanted = folder.empty() || chosen_.empty() || is_chosen(folder, true);
    if (wanted)
      return Error{error.code, "ship: " + error.message,
                   error.code == Errc::Permission ? how_to_leave_out() : error.hint};
    listing_.warnings.push_back(fmt::format("ship: {}; nothing of it is shipped", error.message));
    return Unit{};
  }

  std::string how_to_leave_out() const {
    return chosen_.empty() ? "leave it out in .trainignore"
                           : "leave it out by a pattern that begins with '!'";
  }

  /// As git, take an ignore file that is a link for none.
  Result<bool> read_rules(const std::string& folder, const std::string& path) {
    if (ignore_name_.empty()) return false;
    const std::string file = join_path(path, ignore_name_);
    if (const auto there = files_.status(file); there && there->kind != FileKind::File)
      return false;
    const auto text = read_small_file(files_, file, kIgnoreFileBytesMax);
    if (text.has_error()) {
      if (text.error().code == Errc::NotFound) return false;
      return Error(text.error()).with_context("ship");
    }
    ignored_.emplace_back(folder, PathRules());
    ignored_.back().second.add_lines(*text);
    return true;
  }

  /// Of ignored files, return whether the path is one. With patterns, return whether it is a file
  /// that none of them chooses (files of a chosen folder are chosen), or a folder that one
  /// excludes.
  bool is_left_out(const std::string& path, bool is_folder) const {
    if (!chosen_.empty())
      return is_folder ? chosen_.matches(path, true) == false : !is_chosen(path, false);
    for (auto rules = ignored_.rbegin(); rules != ignored_.rend(); ++rules) {
      const auto& [folder, lines] = *rules;
      const auto verdict = lines.matches(
          std::string_view(path).substr(folder.empty() ? 0 : folder.size() + 1), is_folder);
      if (verdict) return *verdict;
    }
    return false;
  }

  bool is_chosen(std::string_view path, bool is_folder) const {
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
      return Error{Errc::InvalidSpec, "ship: " + checked.error().message,
                   "rename it, or " + how_to_leave_out()};
    if (listing_.files.size() == kCodeFilesMax)
      return Error{Errc::InvalidSpec,
                   fmt::format("ship: '{}' has more than {} files; {}", root_, kCodeFilesMax,
                               largest(&Part::files)),
                   how_to_ship_less()};
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
    const BackendConfig& backend = spec_.backend_config;
    for (const auto* command :
         {&spec_.command, &spec_.per_node_setup.command,
          &spec_.run_config.checkpoint_config.validation.command, &backend.publish,
          &backend.on_start, &backend.on_training_start, &backend.on_shutdown})
      for (const std::string& word : words_of(*command))
        TRY_VOID(add_named(word, word == command->front()));
    return Unit{};
  }

  Result<Unit> add_named(const std::string& word, bool is_program) {
    const bool absolute = word.front() == '/';
    const std::string path =
        fs::path(absolute ? word : join_path(root_, word)).lexically_normal().string();
    const auto relative = below(root_, path);
    std::error_code ec;
    if (!relative || is_never_sent(*relative) || !fs::is_regular_file(path, ec)) return Unit{};
    if (absolute) {
      listing_.warnings.push_back(fmt::format(
          "'{}' is an absolute path, which nodes look up as it is; '{}' names what is shipped",
          word, "./" + *relative));
      return Unit{};
    }
    const bool there = std::any_of(listing_.files.begin(), listing_.files.end(),
                                   [&](const auto& file) { return file.path == *relative; });
    if (there) return Unit{};
    if (const auto bytes = fs::file_size(path, ec); !is_program && !ec && bytes > kNamedBytesMax) {
      listing_.warnings.push_back(
          fmt::format("'{}' is not shipped, although a command names it: it is ignored, and has {}",
                      *relative, size_text(bytes)));
      return Unit{};
    }
    return add(*relative);
  }

  /// What the walk passes over, whatever names it.
  bool is_never_sent(const std::string& relative) const {
    const std::string inside = "/" + relative + "/";
    return inside.find("/.git/") != std::string::npos ||
           below(spec_.run_config.storage_path, join_path(root_, relative)).has_value();
  }

  Result<Unit> check_size() const {
    if (listing_.bytes <= spec_.ship.bytes_max) return Unit{};
    return Error{Errc::InvalidSpec,
                 fmt::format("ship: the files of '{}' have {}, more than the {} that ship.max "
                             "allows; {}",
                             root_, size_text(listing_.bytes), size_text(spec_.ship.bytes_max),
                             largest(&Part::bytes)),
                 how_to_ship_less() + ", or raise ship.max"};
  }

  std::string how_to_ship_less() const {
    return chosen_.empty() ? "name what is needed, such as `ship: [src, train.py]`, or leave "
                             "folders out in .trainignore (files that commands name are "
                             "always sent)"
                           : "name less in `ship`, or exclude folders by patterns that begin with "
                             "'!'";
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

  /// Name the patterns that no file or folder matches: they may be mistyped.
  void note_unmatched() {
    for (std::size_t i = 0; i < std::min(unmatched_.size(), kPatternsShown); ++i)
      listing_.warnings.push_back(
          fmt::format("ship: nothing in '{}' matches '{}'", root_, unmatched_[i].first));
    if (unmatched_.size() > kPatternsShown)
      listing_.warnings.push_back(
          fmt::format("ship: {} more patterns match nothing", unmatched_.size() - kPatternsShown));
  }

  const JobSpec& spec_;
  const std::function<bool()>& stopped_;
  const std::string root_;
  PosixFileSystem files_;
  std::string ignore_name_;  // empty: none is read
  PathRules chosen_;
  std::vector<std::pair<std::string, PathRules>> unmatched_;  // patterns that matched nothing yet
  std::vector<std::pair<std::string, PathRules>> ignored_;    // of the folders above, by folder
  std::map<std::string, Part> parts_;
  std::vector<std::string> folder_links_;
  CodeListing listing_;
};

}  // namespace

Result<CodeListing> list_code(const JobSpec& spec, const std::function<bool()>& stopped) {
  return CodeWalk(spec, stopped).run();
}

}  // namespace train
