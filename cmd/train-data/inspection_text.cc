// How an inspection is shown.
#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cmd/train-data/datasets.h"
#include "cmd/train-data/inspect.h"
#include "cmd/train-data/shown_value.h"
#include "cmd/train-data/table.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kFilesShown = 20;

std::string size_of(std::int64_t bytes) {
  return size_text(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes)));
}

std::string tensor_text(const InspectedColumn& column) {
  if (!column.why.empty()) return "none: " + column.why;
  if (column.dtype.empty()) return "none";
  std::string shape = "rows";
  for (const std::int64_t length : column.shape) shape += fmt::format(", {}", length);
  return fmt::format("{} [{}]", column.dtype, shape);
}

std::string headline(const Inspection& inspection) {
  std::string text = fmt::format("dataset {}: {}", inspection.name, inspection.format);
  if (inspection.format == "items") return text + ", " + counted(inspection.rows, "row");
  return fmt::format("{}, {}, {}, {}, {} (about {} decoded)", text,
                     counted(inspection.file_count, "file"), counted(inspection.units, "unit"),
                     counted(inspection.rows, "row"), size_of(inspection.bytes),
                     size_of(inspection.decoded_bytes));
}

std::string kept_text(const Inspection& inspection) {
  std::string text;
  const auto all = static_cast<double>(std::max<std::int64_t>(1, inspection.rows_before));
  if (!inspection.filter.empty())
    text += fmt::format("  filter: {}\n", terminal_safe(inspection.filter));
  if (inspection.limit > 0) text += fmt::format("  limit: {}\n", inspection.limit);
  if (!text.empty()) {
    text += fmt::format("  kept: {} of {} rows ({:.1f} %)\n", inspection.rows,
                        inspection.rows_before, 100.0 * static_cast<double>(inspection.rows) / all);
  }
  return text;
}

std::string maps_text(const Inspection& inspection) {
  if (inspection.maps.empty()) return "";
  std::string text = fmt::format(
      "  maps: {}\n", terminal_safe(fmt::format("{}", fmt::join(inspection.maps, ", "))));
  if (inspection.maps_fail) {
    text += "  the columns are those before the maps, which fail\n";
  } else if (inspection.known_maps < inspection.maps.size()) {
    text += fmt::format("  the columns are those before {}, which {}\n",
                        terminal_safe(inspection.maps[inspection.known_maps]),
                        inspection.fits ? "is fitted when a run begins" : "the program registers");
  }
  return text;
}

std::string columns_text(const Inspection& inspection) {
  Table table{.head = {"column", "type", "as a tensor"}};
  for (const InspectedColumn& column : inspection.columns)
    table.rows.push_back({column.name, column.type, tensor_text(column)});
  return table_text(table, "  ");
}

std::string files_text(const Inspection& inspection) {
  if (inspection.files.empty()) return "";
  Table table{.head = {"file", "units", "rows", "bytes"}, .right = {false, true, true, true}};
  const std::size_t shown = std::min(inspection.files.size(), kFilesShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const data::FileRows& file = inspection.files[i];
    table.rows.push_back(
        {file.path, std::to_string(file.units), std::to_string(file.rows), size_of(file.bytes)});
  }
  std::string text = "\n" + table_text(table, "  ");
  if (shown < inspection.files.size())
    text += fmt::format("  and {} more, which --json lists\n", inspection.files.size() - shown);
  return text;
}

std::string rows_text(const Inspection& inspection) {
  const auto& rows = inspection.first_rows;
  if (!rows || rows->num_rows() == 0) return "";
  std::string text = "\n  first rows\n";
  for (std::int64_t row = 0; row < rows->num_rows(); ++row) {
    std::string line;
    for (int column = 0; column < rows->num_columns(); ++column) {
      line += fmt::format("{}{}: {}", column > 0 ? ", " : "", rows->column_name(column),
                          shown_value(*rows->column(column), row));
    }
    text += "  " + terminal_safe(line) + "\n";
  }
  return text;
}

Value file_json(const data::FileRows& file) {
  return Dict{{"path", utf8_text(file.path)},
              {"units", file.units},
              {"rows", file.rows},
              {"bytes", file.bytes}};
}

Value column_json(const InspectedColumn& column) {
  Dict json{{"name", utf8_text(column.name)}, {"type", utf8_text(column.type)}, {"tensor", {}}};
  if (!column.dtype.empty()) {
    List shape;
    for (const std::int64_t length : column.shape) shape.emplace_back(length);
    json["tensor"] = Dict{{"dtype", column.dtype}, {"row_shape", std::move(shape)}};
  }
  if (!column.why.empty()) json["why_no_tensor"] = utf8_text(column.why);
  return json;
}

List rows_json(const std::shared_ptr<arrow::RecordBatch>& rows) {
  List list;
  for (std::int64_t row = 0; rows && row < rows->num_rows(); ++row) {
    Dict json;
    for (int column = 0; column < rows->num_columns(); ++column)
      json[utf8_text(rows->column_name(column))] = json_of_value(*rows->column(column), row);
    list.emplace_back(std::move(json));
  }
  return list;
}

List texts_json(const std::vector<std::string>& texts) {
  List list;
  for (const std::string& text : texts) list.emplace_back(utf8_text(text));
  return list;
}

}  // namespace

std::string inspection_text(const Inspection& inspection) {
  std::string text;
  if (inspection.columns.empty()) {
    text = fmt::format("dataset {}: it cannot be opened\n", inspection.name);
  } else {
    text = headline(inspection) + "\n" + kept_text(inspection) + maps_text(inspection) + "\n" +
           columns_text(inspection) + files_text(inspection) + rows_text(inspection);
  }
  if (!inspection.problems.empty()) text += "\n";
  for (const std::string& problem : inspection.problems)
    text += "  problem: " + terminal_safe(problem) + "\n";
  return text;
}

Value inspection_json(const Inspection& inspection) {
  List files, columns;
  for (const data::FileRows& file : inspection.files) files.push_back(file_json(file));
  for (const InspectedColumn& column : inspection.columns) columns.push_back(column_json(column));
  Dict json{{"name", inspection.name},
            {"format", inspection.format},
            {"file_count", inspection.file_count},
            {"files", std::move(files)},
            {"units", inspection.units},
            {"rows", inspection.rows},
            {"rows_before_filter", inspection.rows_before},
            {"bytes", inspection.bytes},
            {"decoded_bytes", inspection.decoded_bytes},
            {"filter", utf8_text(inspection.filter)},
            {"limit", inspection.limit},
            {"maps", texts_json(inspection.maps)},
            {"known_maps", inspection.known_maps},
            {"columns", std::move(columns)},
            {"first_rows", rows_json(inspection.first_rows)},
            {"problems", texts_json(inspection.problems)}};
  if (inspection.error) json["error"] = utf8_text(inspection.error->message);
  return json;
}

}  // namespace train
