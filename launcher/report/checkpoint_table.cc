#include "launcher/report/checkpoint_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/report/text_table.h"
#include "lib/base/json_text.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

/// Return "2026-11-21T09:38:00.123456Z" to the second.
std::string time_text(const std::string& created) {
  constexpr std::size_t kDateChars = 10, kSecondsChars = 19;
  std::string text = terminal_safe(created.substr(0, kSecondsChars));
  if (text.size() == kSecondsChars && text[kDateChars] == 'T') text[kDateChars] = ' ';
  return text;
}

std::string marks_of(const CheckpointRow& row) {
  std::vector<std::string> marks;
  if (row.latest) marks.push_back("latest");
  if (row.best) marks.push_back("best");
  if (!row.nodes.empty())
    marks.push_back(
        fmt::format("on {}", terminal_safe(fmt::format("{}", fmt::join(row.nodes, " ")))));
  return fmt::format("{}", fmt::join(marks, ", "));
}

TableCells cells_of(const CheckpointRow& row, bool with_epoch, bool with_score,
                    bool with_validation) {
  if (!row.error.empty())
    return {terminal_safe(row.name), "cannot be used: " + terminal_safe(row.error)};
  TableCells cells{terminal_safe(row.name), time_text(row.created), size_text(row.bytes),
                   fmt::format("{}", row.files), fmt::format("{}", row.world_size)};
  if (with_epoch) cells.push_back(row.epoch ? fmt::format("{}", *row.epoch) : "-");
  if (with_score) cells.push_back(row.score ? fmt::format("{:.6g}", *row.score) : "-");
  if (with_validation)
    cells.push_back(row.validation.empty() ? "-" : terminal_safe(row.validation));
  cells.push_back(marks_of(row));
  return cells;
}

}  // namespace

std::string checkpoints_text(const CheckpointTable& table) {
  const auto& rows = table.rows;
  const bool with_epoch =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.epoch.has_value(); });
  const bool with_score = !table.score_attribute.empty();
  const bool with_validation = std::any_of(rows.begin(), rows.end(),
                                           [](const auto& row) { return !row.validation.empty(); });
  std::vector<TableCells> lines{{"name", "created (UTC)", "size", "files", "ranks"}};
  if (with_epoch) lines[0].push_back("epoch");
  if (with_score) lines[0].push_back(terminal_safe(table.score_attribute));
  if (with_validation) lines[0].push_back("validation");
  lines[0].push_back("");
  for (const CheckpointRow& row : rows)
    lines.push_back(cells_of(row, with_epoch, with_score, with_validation));
  return table_text(lines);
}

std::string checkpoints_json(const CheckpointTable& table) {
  std::string text = "[";
  for (const CheckpointRow& row : table.rows) {
    const bool usable = row.error.empty();
    JsonWriter json;
    json.object();
    json.member("name", row.name).member("number", row.number).member("path", row.path);
    json.text_or_null("error", row.error).text_or_null("created", row.created);
    const auto known = [&](const char* name, const auto& value) {
      json.key(name);
      usable ? json.value(value) : json.null();
    };
    known("bytes", row.bytes);
    known("files", row.files);
    known("world_size", row.world_size);
    json.key("epoch");
    row.epoch ? json.value(*row.epoch) : json.null();
    json.key("score");
    row.score ? json.value(*row.score) : json.null();
    known("metrics", row.metrics);
    json.text_or_null("validation", row.validation);
    json.text_or_null("validation_error", row.validation_error);
    json.key("nodes").array();
    for (const std::string& node : row.nodes) json.value(node);
    json.end();
    json.member("latest", row.latest).member("best", row.best).end();
    text += (text.size() == 1 ? "\n" : ",\n") + std::move(json).take();
  }
  return text + (text.size() == 1 ? "]\n" : "\n]\n");
}

}  // namespace train
