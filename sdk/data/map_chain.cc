#include "sdk/data/map_chain.h"

#include <arrow/array.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/datum.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/base/check.h"
#include "lib/data/arrow_error.h"
#include "lib/data/kept_rows.h"
#include "lib/data/plan/permutation.h"
#include "lib/data/row_bytes.h"
#include "lib/data/transform/preprocessors.h"
#include "lib/model/built_in_maps.h"
#include "sdk/data/map_registry.h"

namespace train::sdk {
namespace {

data::ImageSize size_of(const Config& arguments) {
  const auto sides = arguments.get<std::vector<std::int64_t>>("size", {});
  if (sides.empty()) return {};
  if (sides.size() != 2) throw Failure("invalid_argument", "size is not [height, width]");
  return {static_cast<int>(sides[0]), static_cast<int>(sides[1])};
}

/// The launcher has checked the arguments.
data::BuiltInMapSpec built_in_spec(const MapStep& step) {
  const Config arguments(step.arguments);
  const data::BuiltInMapSpec defaults;
  return {
      .name = step.name,
      .column = arguments.get<std::string>("column", ""),
      .size = size_of(arguments),
      .mode = arguments.get<std::string>("mode", "RGB") == "L" ? data::ImageMode::L
                                                               : data::ImageMode::Rgb,
      .padding = arguments.get<int>("padding", defaults.padding),
      .vertical = arguments.get<std::string>("direction", "") == "vertical",
      .probability = arguments.get<double>("probability", defaults.probability),
      .mean = arguments.get<std::vector<double>>("mean", {}),
      .std = arguments.get<std::vector<double>>("std", {}),
      .type = arguments.get<std::string>("type", ""),
      .factor = arguments.get<double>("factor", defaults.factor),
      .offset = arguments.get<double>("offset", defaults.offset),
      .classes = arguments.get<std::int64_t>("classes", defaults.classes),
  };
}

Error unknown_map(const std::string& name) {
  std::vector<std::string> known = registered_maps();
  const std::string registered =
      known.empty() ? "registers none" : fmt::format("registers '{}'", fmt::join(known, "', '"));
  std::vector<std::string_view> built_in;
  for (const BuiltInMap& map : kBuiltInMaps) built_in.push_back(map.name);
  return Error{Errc::NotFound,
               fmt::format("there is no such map: the program {}, and the built-in ones are {}",
                           registered, fmt::join(built_in, ", ")),
               fmt::format("correct the name, or call train::register_map(\"{}\", …) before "
                           "train::run",
                           name)};
}

Result<std::shared_ptr<arrow::RecordBatch>> take_rows(
    const std::shared_ptr<arrow::RecordBatch>& rows, const std::vector<std::int64_t>& order) {
  static constexpr std::string_view kDoing = "cannot leave rows out";
  arrow::Int64Builder builder;
  if (const auto status = builder.AppendValues(order); !status.ok())
    return data::error_from(status, kDoing);
  ARROW_TRY(const auto indices, kDoing, builder.Finish());
  ARROW_TRY(const auto taken, kDoing,
            arrow::compute::Take(arrow::Datum(rows), arrow::Datum(indices)));
  return taken.record_batch();
}

}  // namespace

/// Where a row is from.
struct MapChain::Place {
  std::int64_t unit = 0, row = 0;
  std::uint64_t part = 0;  // which of the rows that flat maps have made of it
  std::int64_t asked = 0;  // the row's number in the batch as it came
  std::int64_t made = 0;   // and as the last flat map has made it
};

/// What a rank needs to know of a part, to join it to others.
struct MapChain::Part {
  std::map<std::int64_t, Error> bad = {};  // by Place::asked
  std::set<std::int64_t> lost = {};        // of Place::made
  std::vector<std::uint32_t> counts = {};  // how many rows are made of each; empty: one

  void made(std::size_t asked, std::vector<Place>& places) {
    lost.clear();
    counts.assign(asked, 0);
    for (std::size_t at = 0; at < places.size(); ++at) {
      places[at].made = static_cast<std::int64_t>(at);
      ++counts[static_cast<std::size_t>(places[at].asked)];
    }
  }
};

/// A batch between two maps.
struct MapChain::Mapped {
  std::shared_ptr<arrow::RecordBatch> rows;
  std::int64_t valid_rows = 0;
  std::uint64_t epoch = 0;
  std::vector<Place> places;  // of the rows
  std::size_t asked = 0;      // rows of the batch as it came
  Part* part = nullptr;       // null: it is a whole batch

  static std::vector<Place> places_of(const std::vector<data::RowRange>& ranges) {
    std::vector<Place> places;
    for (const data::RowRange& range : ranges) {
      for (std::int64_t row = range.first; row < range.first + range.count; ++row)
        places.push_back({.unit = range.unit,
                          .row = row,
                          .asked = static_cast<std::int64_t>(places.size()),
                          .made = static_cast<std::int64_t>(places.size())});
    }
    return places;
  }
  /// Keep the first rows.
  void cut(std::int64_t count) {
    rows = rows->Slice(0, count);
    places.resize(static_cast<std::size_t>(count));
  }
};

Result<std::shared_ptr<const MapChain>> MapChain::make(
    std::string dataset, const DatasetSpec& spec,
    const std::shared_ptr<const data::RowSource>& source,
    std::vector<data::FittedPreprocessor> preprocessors) {
  std::shared_ptr<MapChain> chain(new MapChain(std::move(dataset), spec, source));
  TRY(chain->schema_, data::preprocessed(preprocessors, chain->schema_));
  chain->preprocessors_ = std::move(preprocessors);
  for (const MapStep& step : spec.maps) {
    auto added = chain->add(step);
    if (added.has_error())
      return std::move(added).error().with_context(fmt::format("map '{}'", step.name));
  }
  return std::shared_ptr<const MapChain>(std::move(chain));
}

MapChain::MapChain(std::string dataset, const DatasetSpec& spec,
                   const std::shared_ptr<const data::RowSource>& source)
    : dataset_(std::move(dataset)),
      seed_(spec.order.seed),
      schema_(source->schema()),
      bad_rows_(dataset_, source, spec.skip_rows_max) {}

Result<Unit> MapChain::add(const MapStep& step) {
  Map map{.name = step.name, .built_in = {}, .registered = {}, .arguments = {}};
  if (built_in_map(step.name) == nullptr) {
    map.registered = registered_map(step.name);
    map.arguments = Config(step.arguments);
    if (std::holds_alternative<std::monostate>(map.registered)) return unknown_map(step.name);
  } else {
    TRY(map.built_in, data::RowMap::make(built_in_spec(step)));
    if (!has_registered()) {
      TRY(schema_, map.built_in->output(*schema_));
    }
  }
  maps_.push_back(std::move(map));
  return Unit{};
}

std::string MapChain::flat_map() const {
  for (const Map& map : maps_)
    if (std::holds_alternative<FlatMapFunction>(map.registered)) return map.name;
  return {};
}

Result<data::ReadBatch> MapChain::apply(data::ReadBatch batch, std::uint64_t epoch,
                                        DatasetMeters* meters) const {
  return apply(std::move(batch), epoch, meters, nullptr);
}

Result<data::PartRows> MapChain::apply_to_part(data::ReadBatch batch, std::uint64_t epoch,
                                               DatasetMeters* meters) const {
  Part part;
  batch.valid_rows = batch.rows->num_rows();
  TRY(batch, apply(std::move(batch), epoch, meters, &part));
  data::PartRows rows{.rows = std::move(batch.rows),
                      .bad = {},
                      .lost = {part.lost.begin(), part.lost.end()},
                      .counts = std::move(part.counts)};
  for (auto& [row, why] : part.bad) rows.bad.push_back({row, std::move(why)});
  return rows;
}

Result<data::ReadBatch> MapChain::apply(data::ReadBatch batch, std::uint64_t epoch,
                                        DatasetMeters* meters, Part* part) const {
  if (!preprocessors_.empty()) {
    DataMeter* const meter = meters == nullptr ? nullptr : &meters->map(0);
    const DatasetMeters::Working preprocessing(meters, meter);
    TRY(batch.rows, data::preprocess(preprocessors_, std::move(batch.rows)));
    if (meter != nullptr) meter->passed(batch.rows->num_rows(), data::bytes_of_rows(*batch.rows));
  }
  const std::size_t first_map = preprocessors_.empty() ? 0 : 1;
  if (maps_.empty()) return batch;
  Mapped mapped{.rows = std::move(batch.rows),
                .valid_rows = batch.valid_rows,
                .epoch = epoch,
                .places = Mapped::places_of(batch.ranges),
                .part = part};
  mapped.asked = mapped.places.size();
  TRAIN_CHECK(std::cmp_equal(mapped.places.size(), mapped.rows->num_rows()),
              "a place for each row");
  for (std::size_t index = 0; index < maps_.size(); ++index) {
    DataMeter* const meter = meters == nullptr ? nullptr : &meters->map(first_map + index);
    const DatasetMeters::Working mapping(meters, meter);
    auto done = apply_one(index, mapped);
    if (done.has_error())
      return std::move(done).error().with_context(fmt::format("map '{}'", maps_[index].name));
    if (meter != nullptr) meter->passed(mapped.rows->num_rows(), data::bytes_of_rows(*mapped.rows));
  }
  batch.rows = std::move(mapped.rows);
  batch.valid_rows = mapped.valid_rows;
  return batch;
}

Result<Unit> MapChain::apply_one(std::size_t index, Mapped& mapped) const {
  const Map& map = maps_[index];
  const std::uint64_t key = data::mix(data::mix(seed_, mapped.epoch), index);
  std::vector<std::uint64_t> seeds;
  seeds.reserve(mapped.places.size());
  for (const Place& place : mapped.places) {
    const auto of_row = data::mix(data::mix(key, static_cast<std::uint64_t>(place.unit)),
                                  static_cast<std::uint64_t>(place.row));
    seeds.push_back(place.part == 0 ? of_row : data::mix(of_row, place.part));
  }
  if (map.built_in) {
    std::vector<data::BadRow> bad;
    TRY(mapped.rows, map.built_in->apply(*mapped.rows, seeds, bad));
    return take_out(std::move(bad), mapped);
  }
  const MapContext context(dataset_, mapped.epoch, map.arguments, std::move(seeds));
  try {
    if (const auto* flat = std::get_if<FlatMapFunction>(&map.registered))
      return apply(*flat, mapped, context);
    return apply(std::get<MapFunction>(map.registered), mapped, context);
  } catch (const Failure& failure) {
    return Error{errc_of(failure.kind()), failure.what()};
  } catch (const std::bad_alloc&) {
    throw;  // the batch's reader names it
  } catch (const std::exception& error) {
    return Error{Errc::InvalidArgument, error.what()};
  }
}

Result<Unit> MapChain::apply(const MapFunction& map, Mapped& mapped,
                             const MapContext& context) const {
  const std::int64_t before = mapped.rows->num_rows();
  mapped.rows = map(std::move(mapped.rows), context);
  if (!mapped.rows) return Error{Errc::InvalidArgument, "it returned no batch"};
  if (mapped.rows->num_rows() == before) return Unit{};
  return Error{
      Errc::InvalidArgument,
      fmt::format("it returned {} rows for {}", mapped.rows->num_rows(), before),
      "return one row for each, in the same order, or register it by train::register_flat_map"};
}

/// Map the valid rows. If there are none, map one of the others, for the columns.
Result<Unit> MapChain::apply(const FlatMapFunction& map, Mapped& mapped,
                             const MapContext& context) const {
  const bool none = mapped.valid_rows == 0;
  if (!mapped.places.empty()) mapped.cut(std::max<std::int64_t>(1, mapped.valid_rows));
  FlatMapped made = map(std::move(mapped.rows), context);
  if (!made.rows) return Error{Errc::InvalidArgument, "it returned no batch"};
  if (std::cmp_not_equal(made.origins.size(), made.rows->num_rows())) {
    return Error{Errc::InvalidArgument, fmt::format("it returned {} rows and {} origins",
                                                    made.rows->num_rows(), made.origins.size())};
  }
  std::vector<Place> places;
  std::int64_t last = -1;
  std::uint64_t of_last = 0;
  for (const std::int64_t origin : made.origins) {
    if (origin < std::max<std::int64_t>(0, last) ||
        std::cmp_greater_equal(origin, mapped.places.size())) {
      return Error{Errc::InvalidArgument,
                   fmt::format("it returned the origin {} after {}, of {} rows", origin, last,
                               mapped.places.size()),
                   "tell for each row which row of the batch it comes of, from 0, in their order"};
    }
    of_last = origin == last ? of_last + 1 : 0;
    last = origin;
    places.push_back(mapped.places[static_cast<std::size_t>(origin)]);
    places.back().part = data::mix(places.back().part, of_last);
  }
  mapped.rows = std::move(made.rows);
  mapped.places = std::move(places);
  if (none) mapped.cut(0);
  if (mapped.part != nullptr) mapped.part->made(mapped.asked, mapped.places);
  mapped.valid_rows = mapped.rows->num_rows();
  return Unit{};
}

/// Move the rows that are not bad to the front, and fill the batch with repeats of them.
Result<Unit> MapChain::take_out(std::vector<data::BadRow> bad, Mapped& mapped) const {
  if (bad.empty()) return Unit{};
  std::vector<bool> is_bad(mapped.places.size());
  for (data::BadRow& row : bad) {
    const auto at = static_cast<std::size_t>(row.row);
    is_bad[at] = true;
    const Place& place = mapped.places[at];
    if (mapped.part == nullptr || !bad_rows_.may_leave_out()) {
      TRY_VOID(bad_rows_.add(place.unit, place.row, std::move(row.why)));
    } else {
      mapped.part->bad.try_emplace(place.asked, std::move(row.why));
      mapped.part->lost.insert(place.made);
    }
  }
  const data::KeptRows kept = data::kept_rows(is_bad, mapped.valid_rows);
  mapped.valid_rows = kept.valid_rows;
  if (kept.order.empty()) return Unit{};  // nothing to repeat: the rows are what comes of zeros
  TRY(mapped.rows, take_rows(mapped.rows, kept.order));
  std::vector<Place> places;
  for (const std::int64_t row : kept.order)
    places.push_back(mapped.places[static_cast<std::size_t>(row)]);
  mapped.places = std::move(places);
  return Unit{};
}

}  // namespace train::sdk
