#include "cmd/train-data/inspect.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <train/dataset.h>

#include <algorithm>
#include <set>

#include "cmd/train-data/datasets.h"
#include "cmd/train-data/schema_problems.h"
#include "lib/data/dataset_files.h"
#include "sdk/data/column_view.h"

namespace train {
namespace {

constexpr std::int64_t kSampledRows = 64;  // whose shapes are looked at
constexpr std::size_t kEmptyNamedMax = 20;

/// Return the reason in a message of column_view.h, without the column's name and the advice.
std::string short_reason(std::string text) {
  constexpr std::string_view kBefore = "does not fit a tensor: ";
  if (const auto at = text.find(kBefore); at != std::string::npos)
    text.erase(0, at + kBefore.size());
  return text.substr(0, text.rfind(" ("));
}

InspectedColumn column_of(const arrow::RecordBatch& rows, int index) {
  const auto& field = rows.schema()->field(index);
  InspectedColumn column{.name = field->name(), .type = field->type()->ToString()};
  const auto alone = arrow::RecordBatch::Make(arrow::schema({field}), rows.num_rows(),
                                              arrow::ArrayVector{rows.column(index)});
  try {
    const auto views = sdk::tensor_column_views(Batch{alone, rows.num_rows()});
    if (views.empty()) return column;
    column.dtype = sdk::to_string(views.front().type);
    column.shape.assign(views.front().shape.begin() + 1, views.front().shape.end());
  } catch (const Failure& why) {
    column.why = short_reason(why.what());
  }
  return column;
}

/// Name the files without rows. `all`: the files that there are; the source has the others.
void name_empty_files(const std::vector<std::string>& all, const data::RowSource& source,
                      Inspection& inspection) {
  std::set<std::string> with_rows;
  for (const data::FileRows& file : source.files())
    if (file.rows > 0) with_rows.insert(file.path);
  std::size_t empty = 0;
  for (const std::string& path : all) {
    if (with_rows.contains(path)) continue;
    if (++empty <= kEmptyNamedMax) inspection.problems.push_back(path + " has no rows");
  }
  if (empty > kEmptyNamedMax)
    inspection.problems.push_back(fmt::format("{} files in all have no rows", empty));
}

/// Count the rows that there are without the filter and the limit. `names`: of the files.
Result<Unit> count_all_rows(sdk::DatasetSpec spec,
                            const std::shared_ptr<const data::RowSource>& source,
                            const std::vector<std::string>& names, Inspection& inspection) {
  auto all = source;
  if (!spec.files.filter.empty() || spec.files.limit > 0) {
    spec.files.filter.clear();
    spec.files.limit = 0;
    TRY(all, open_rows(spec));
  }
  inspection.rows_before = all->total_rows();
  if (inspection.rows_before == 0) inspection.problems.push_back("it has no rows");
  if (inspection.rows_before > 0 && inspection.rows == 0)
    inspection.problems.push_back("no row passes the filter");
  inspection.file_count = static_cast<std::int64_t>(names.size());
  if (inspection.format != "items" && inspection.format != "images")
    name_empty_files(names, *all, inspection);
  return Unit{};
}

/// Take what the source tells of its files. That of pictures has one entry for all, and its decoded
/// bytes are theirs.
void take_files(const data::RowSource& source, Inspection& inspection) {
  if (inspection.format == "images") {
    inspection.bytes = source.decoded_bytes();
    return;
  }
  inspection.files = source.files();
  for (const data::FileRows& file : inspection.files) inspection.bytes += file.bytes;
}

/// Look at the first rows, before and after the maps.
Result<Unit> look_at_rows(const sdk::DatasetSpec& spec,
                          const std::shared_ptr<const data::RowSource>& source, std::int64_t rows,
                          Inspection& inspection) {
  TRY(FirstRows first, first_rows(*source, std::max(rows, kSampledRows)));
  if (!first.rows) {
    for (const auto& field : source->schema()->fields())
      inspection.columns.push_back(
          {.name = field->name(), .type = field->type()->ToString(), .why = "there are no rows"});
    return Unit{};
  }
  inspection.first_rows = first.rows->Slice(0, rows);
  inspection.fits = !spec.preprocessors.empty();
  auto mapped = first.rows;
  auto maps = apply_known_maps(inspection.name, spec, source, first);
  if (maps.has_error()) {
    inspection.maps_fail = true;
    for (const sdk::MapStep& step : spec.maps) inspection.maps.push_back(step.name);
    inspection.problems.push_back(maps.error().message);
  } else {
    inspection.maps = std::move(maps->names);
    inspection.known_maps = maps->known;
    mapped = std::move(maps->rows);
  }
  for (int i = 0; i < mapped->num_columns(); ++i)
    inspection.columns.push_back(column_of(*mapped, i));
  return Unit{};
}

}  // namespace

Result<Inspection> inspect(const std::string& name, const Value& entry, std::int64_t rows) {
  TRY(const sdk::DatasetSpec spec, read_dataset_spec(entry));
  Inspection inspection{
      .name = name, .format = spec.format, .filter = spec.files.filter, .limit = spec.files.limit};
  const auto opened = open_rows(spec);
  if (opened.has_error()) {
    inspection.problems = schema_problems(spec);
    inspection.error = opened.error();
    return inspection;
  }
  const auto& source = *opened;
  TRY(const FileNames names, file_names(spec));
  if (spec.format != "items") inspection.format = data::to_string(names.format);
  take_files(*source, inspection);
  inspection.units = static_cast<std::int64_t>(source->unit_rows().size());
  inspection.rows = source->total_rows();
  inspection.decoded_bytes = source->decoded_bytes();
  TRY_VOID(count_all_rows(spec, source, names.paths, inspection));
  if (auto looked = look_at_rows(spec, source, rows, inspection); looked.has_error())
    inspection.error = std::move(looked).error();
  return inspection;
}

}  // namespace train
