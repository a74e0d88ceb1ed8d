#include "lib/samples/sample_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/samples/sample_json.h"
#include "lib/samples/sample_lines.h"

namespace train {
namespace {

constexpr const char* kSamples = "the samples";  // a file that was opened by somebody else
constexpr std::size_t kValuesMax = 8u << 20;     // in an answer, of 8 bytes or a short text

/// Leave only what the query names.
void select(SampleTable& table, const SampleQuery& query) {
  const auto named = [](const std::vector<std::string>& names, std::string_view name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::erase_if(table.columns, [&](const SampleColumn& column) {
    return !named(query.fields, column.field->name);
  });
  if (query.rows.empty()) return;
  std::size_t kept = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (!named(query.rows, table.rows[row])) continue;
    if (kept != row) {
      table.rows[kept] = std::move(table.rows[row]);
      for (SampleColumn& column : table.columns) {
        if (column.field->is_text)
          column.texts[kept] = std::move(column.texts[row]);
        else
          column.numbers[kept] = column.numbers[row];
      }
    }
    ++kept;
  }
  table.rows.resize(kept);
  for (SampleColumn& column : table.columns) {
    if (column.field->is_text)
      column.texts.resize(kept);
    else
      column.numbers.resize(kept);
  }
}

/// The answer while it grows: neighbours are merged as soon as it is too large.
class Answer {
 public:
  explicit Answer(std::size_t tables_max) : tables_max_(std::max<std::size_t>(tables_max, 4)) {}

  void add(SampleTable table) {
    tables_.push_back(std::move(table));
    values_ += values_of(tables_.back());
    while (is_too_large(1)) coarsen();
  }
  std::vector<SampleTable> take() && {
    merge_neighbours();
    return std::move(tables_);
  }

 private:
  static std::size_t values_of(const SampleTable& table) {
    return table.rows.size() * (table.columns.size() + 1);
  }
  bool is_too_large(std::size_t share) const {
    return tables_.size() > 1 &&
           (tables_.size() > tables_max_ / share || values_ > kValuesMax / share);
  }
  void coarsen() {
    merge_neighbours();
    if (!is_too_large(2)) return;
    const std::int64_t covered =
        std::max<std::int64_t>(tables_.back().end_ms - tables_.front().end_ms, 1);
    span_ms_ = std::max(2 * span_ms_, covered / static_cast<std::int64_t>(tables_max_ / 2) + 1);
    const std::size_t before = tables_.size();
    merge_neighbours();
    if (tables_.size() < before) return;
    // Of many attempts, or of clocks that were set: the oldest are left out.
    tables_.erase(tables_.begin(), tables_.begin() + static_cast<std::ptrdiff_t>(before + 1) / 2);
    count();
  }
  void merge_neighbours() {
    if (span_ms_ == 0) return;
    std::vector<SampleTable> merged;
    for (std::size_t first = 0; first < tables_.size();) {
      std::size_t end = first + 1;
      while (end < tables_.size() && belong_together(tables_[first], tables_[end])) ++end;
      merged.push_back(
          end - first == 1
              ? std::move(tables_[first])
              : merge_samples(std::span<const SampleTable>(tables_).subspan(first, end - first)));
      first = end;
    }
    tables_ = std::move(merged);
    count();
  }
  bool belong_together(const SampleTable& first, const SampleTable& next) const {
    const std::int64_t began = first.end_ms - first.span_ms;
    return next.attempt == first.attempt && next.end_ms >= began && next.end_ms <= began + span_ms_;
  }
  void count() {
    values_ = 0;
    for (const SampleTable& table : tables_) values_ += values_of(table);
  }

  const std::size_t tables_max_;
  std::int64_t span_ms_ = 0;  // of a table that was merged; 0: as they are in the file
  std::size_t values_ = 0;
  std::vector<SampleTable> tables_;
};

/// Add the line's table, if the query wants it.
void take_line(Answer& answer, const SampleQuery& query, std::string_view line) {
  const auto head = parse_sample_head(line);
  if (!head || head->kind != query.kind || head->end_ms <= query.from_ms ||
      head->end_ms > query.to_ms || (query.attempt && head->attempt != *query.attempt))
    return;
  auto table = parse_sample_line(line);
  if (!table) return;
  select(*table, query);
  if (!table->rows.empty()) answer.add(std::move(*table));
}

/// Let the line's table take the place of an older one of its kind.
void replace_by(std::string_view line, std::vector<SampleTable>& newest) {
  auto table = parse_sample_line(line);
  if (!table) return;
  std::erase_if(newest, [&table](const SampleTable& one) { return one.kind == table->kind; });
  newest.push_back(std::move(*table));
}

}  // namespace

Result<std::vector<SampleTable>> read_samples(const std::string& path, const SampleQuery& query) {
  Answer answer(query.tables_max);
  TRY_VOID(for_each_line(
      path, [&](std::string_view line, std::uint64_t) { take_line(answer, query, line); }));
  return std::move(answer).take();
}

Result<std::vector<SampleTable>> read_samples(const FileDescriptor& file,
                                              const SampleQuery& query) {
  Answer answer(query.tables_max);
  TRY_VOID(for_each_line(file, kSamples, [&](std::string_view line, std::uint64_t) {
    take_line(answer, query, line);
  }));
  return std::move(answer).take();
}

Result<std::vector<SampleTable>> read_newest_samples(const std::string& path) {
  std::vector<SampleTable> newest;
  TRY_VOID(
      for_each_line(path, [&](std::string_view line, std::uint64_t) { replace_by(line, newest); }));
  return newest;
}

Result<std::vector<SampleTable>> read_newest_samples(const FileDescriptor& file) {
  std::vector<SampleTable> newest;
  TRY_VOID(for_each_line(file, kSamples,
                         [&](std::string_view line, std::uint64_t) { replace_by(line, newest); }));
  return newest;
}

}  // namespace train
