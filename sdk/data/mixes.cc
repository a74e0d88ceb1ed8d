#include "sdk/data/mixes.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <bit>

#include "lib/data/plan/permutation.h"
#include "lib/data/row_bytes.h"

namespace train::sdk {
namespace {

Result<data::OrderSpec> order_in_mix(const DatasetShard::Impl& member) {
  const data::DatasetSize size{.rows = member.source->total_rows(),
                               .decoded_bytes = member.source->decoded_bytes(),
                               .reads_rows = member.source->reads_rows()};
  return data::choose_order(member.spec.order, size, 1, data::kLanes);
}

/// Return what an order is made of, as numbers.
std::uint64_t id_of(const data::OrderSpec& order) {
  std::uint64_t id = order.seed;
  for (const auto number :
       {static_cast<std::int64_t>(order.shuffle), order.lanes, order.block_rows})
    id = data::mix(id, static_cast<std::uint64_t>(number));
  return id;
}

}  // namespace

Result<data::MixOrder> mix_of(const DatasetShard::Impl& mix) {
  data::MixSpec spec{.end = mix.spec.mix_end, .epoch_rows = mix.spec.mix_rows};
  for (const auto& [name, weight] : mix.spec.mix) spec.weights.push_back(weight);
  const auto& first = *mix.members.front();
  for (const auto& member : mix.members) {
    spec.rows.push_back(member->source->total_rows());
    TRY_VOID(order_in_mix(*member));
    if (const std::string map = member->maps->flat_map(); !map.empty()) {
      return Error{Errc::InvalidArgument,
                   fmt::format("map '{}' of dataset '{}' changes how many rows there are, so the "
                               "weights of a mix would not hold",
                               map, member->name),
                   "convert that dataset first, or leave it out of the mix"};
    }
    if (member->maps->schema()->Equals(*first.maps->schema()) || member->maps->has_registered() ||
        first.maps->has_registered())
      continue;  // what registered maps make is known when they run
    return Error{Errc::InvalidArgument,
                 fmt::format("its datasets have different columns: '{}' has {}, and '{}' has {}",
                             first.name, first.maps->schema()->ToString(), member->name,
                             member->maps->schema()->ToString()),
                 "select the same `columns`, and let the maps make the same types"};
  }
  return data::MixOrder::make(spec);
}

DatasetLayout layout_of_mix(const DatasetShard::Impl& mix) {
  DatasetLayout all;
  std::uint64_t id = data::mix(static_cast<std::uint64_t>(mix.spec.mix_end),
                               static_cast<std::uint64_t>(mix.spec.mix_rows));
  auto weight = mix.spec.mix.begin();
  for (const auto& member : mix.members) {
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(all.units.unit_rows, member->layout.units.unit_rows);
    append(all.units.file_units, member->layout.units.file_units);
    append(all.units.file_bytes, member->layout.units.file_bytes);
    for (data::FileRows file : member->layout.files) {
      file.path.insert(0, member->name + "/");
      all.files.push_back(std::move(file));
    }
    id = data::mix(id, std::bit_cast<std::uint64_t>((weight++)->second));
    id = data::mix(id, member->layout.units.unit_rows.size());
    id = data::mix(id, id_of(*order_in_mix(*member)));
  }
  all.digest = fmt::format("{}{:016x}", data::digest_of(all.units), id);
  return all;
}

std::vector<data::MixSource> sources_of_mix(const DatasetShard::Impl& mix) {
  std::vector<data::MixSource> sources;
  for (const auto& member : mix.members) {
    sources.push_back({.name = member->name,
                       .rows = member->source,
                       .layout = member->layout.units,
                       .order = *order_in_mix(*member),
                       .map = [maps = member->maps, meters = mix.meters](data::ReadBatch batch,
                                                                         std::uint64_t epoch) {
                         const DatasetMeters::Working mapping(meters.get(), &meters->map(0));
                         auto mapped = maps->apply(std::move(batch), epoch);
                         if (mapped)
                           meters->map(0).passed(mapped->rows->num_rows(),
                                                 data::bytes_of_rows(*mapped->rows));
                         return mapped;
                       }});
  }
  return sources;
}

}  // namespace train::sdk
