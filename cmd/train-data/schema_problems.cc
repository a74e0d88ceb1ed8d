#include "cmd/train-data/schema_problems.h"

#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cmd/train-data/datasets.h"
#include "lib/data/dataset_files.h"

namespace train {
namespace {

constexpr std::size_t kFilesMax = 10'000;  // that are looked at
constexpr std::size_t kNamedMax = 20;

struct FilesWith {
  std::string first;  // one of them
  std::int64_t count = 0;
};

/// Collects the columns of files.
class Columns {
 public:
  void add(const std::string& path, const arrow::Schema& schema, bool names_only) {
    for (const auto& field : schema.fields()) {
      if (!by_name_.contains(field->name())) order_.push_back(field->name());
      auto& types = by_name_[field->name()];
      FilesWith& with = types[names_only ? "there" : field->type()->ToString()];
      if (with.count++ == 0) with.first = path;
    }
    paths_.push_back(path);
    names_.push_back(schema.field_names());
  }

  std::vector<std::string> differences() const {
    std::vector<std::string> texts;
    for (const std::string& name : order_) {
      auto types = by_name_.at(name);
      if (const FilesWith without = files_without(name); without.count > 0)
        types["missing"] = without;
      if (types.size() < 2) continue;
      if (texts.size() == kNamedMax) {
        texts.push_back("and further columns differ");
        break;
      }
      texts.push_back(text_of(name, types));
    }
    return texts;
  }

 private:
  FilesWith files_without(const std::string& name) const {
    FilesWith files;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (std::find(names_[i].begin(), names_[i].end(), name) != names_[i].end()) continue;
      if (files.count++ == 0) files.first = paths_[i];
    }
    return files;
  }

  static std::string text_of(const std::string& name,
                             const std::map<std::string, FilesWith>& types) {
    std::vector<std::pair<std::string, FilesWith>> sorted(types.begin(), types.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
    std::string text = fmt::format("column '{}' is ", name);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const auto& [type, files] = sorted[i];
      text += fmt::format("{}{} in {} ({}{})", i > 0 ? ", " : "", type,
                          counted(files.count, "file"), files.first, files.count > 1 ? ", …" : "");
    }
    return text;
  }

  std::vector<std::string> order_;  // of the names
  std::map<std::string, std::map<std::string, FilesWith>> by_name_;
  std::vector<std::string> paths_;
  std::vector<std::vector<std::string>> names_;
};

}  // namespace

std::vector<std::string> schema_problems(const sdk::DatasetSpec& spec) {
  if (spec.format == "items" || spec.format == "images") return {};
  const auto found = file_names(spec);
  if (found.has_error()) return {};
  std::vector<std::string> problems;
  Columns columns;
  std::int64_t unread = 0;
  for (std::size_t i = 0; i < std::min(found->paths.size(), kFilesMax); ++i) {
    sdk::DatasetSpec one = spec;
    one.format = std::string(data::to_string(found->format));
    one.files.paths = {found->paths[i]};
    one.files.filter.clear();
    const auto source = open_rows(one);
    if (source.has_value()) {
      if ((*source)->total_rows() > 0 || !data::is_text(found->format))
        columns.add(found->paths[i], *(*source)->schema(), data::is_text(found->format));
    } else if (++unread <= static_cast<std::int64_t>(kNamedMax)) {
      problems.push_back(source.error().message);
    }
  }
  if (unread > static_cast<std::int64_t>(kNamedMax))
    problems.push_back(fmt::format("{} files in all cannot be read", unread));
  for (std::string& difference : columns.differences()) problems.push_back(std::move(difference));
  return problems;
}

}  // namespace train
