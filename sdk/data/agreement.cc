#include "sdk/data/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <train/config.h>

#include <algorithm>
#include <map>

#include "lib/data/plan/step_division.h"

namespace train::sdk {
namespace {

struct Shared {  // must be the same on all ranks
  const char* key;
  const char* what;  // "{}" is the value
  const char* hint;
};
constexpr Shared kShared[] = {
    {"rows", "{} rows", "every node must have the same files at the dataset's path"},
    {"layout", "files with digest {}", "every node must have the same files at the dataset's path"},
    {"order", "rows in the order \"{}\"",
     "every rank must begin from the same checkpoint, with the same spec"},
    {"epoch", "epoch {}",
     "call set_epoch() with the same number on every rank, and iterate equally often"},
    {"rows_consumed", "{} rows consumed", "call set_epoch() on every rank, or on none"},
    {"drop_last", "drop_last {}", "give every rank the same options"},
};

/// Return "4000 rows on ranks 0, 1" for each value that occurs.
std::string describe(const Shared& shared, const std::vector<Dict>& views) {
  std::map<std::string, std::vector<std::size_t>> ranks_by_value;
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    const Value& value = views[rank].at(shared.key);
    ranks_by_value[value.is_string() ? value.as<std::string>() : to_json(value)].push_back(rank);
  }
  std::string text;
  for (const auto& [value, ranks] : ranks_by_value) {
    text += fmt::format("{}{} on rank{} {}", text.empty() ? "" : ", ",
                        fmt::format(fmt::runtime(shared.what), value), ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks, ", "));
  }
  return text;
}

}  // namespace

std::string encode(const PassView& view) {
  return to_json(Dict{{"rows", view.rows},
                      {"layout", view.layout},
                      {"order", view.order},
                      {"batch_size", view.batch_size},
                      {"weight", view.weight},
                      {"speed", view.speed},
                      {"drop_last", view.drop_last},
                      {"epoch", std::to_string(view.epoch)},
                      {"rows_consumed", view.rows_consumed}});
}

Result<std::vector<std::int64_t>> agree(const std::vector<std::string>& views) {
  std::vector<Dict> parsed;
  for (const std::string& view : views) parsed.push_back(parse_json(view).as<Dict>());
  for (const Shared& shared : kShared) {
    for (const Dict& view : parsed) {
      if (view.at(shared.key) == parsed.front().at(shared.key)) continue;
      return Error{Errc::InvalidArgument,
                   fmt::format("the ranks differ: {}", describe(shared, parsed)), shared.hint};
    }
  }
  std::vector<std::int64_t> batch_sizes;
  std::vector<double> weights, speeds;
  for (const Dict& view : parsed) {
    batch_sizes.push_back(view.at("batch_size").as<std::int64_t>());
    weights.push_back(view.at("weight").as<double>());
    speeds.push_back(view.at("speed").as<double>());
  }
  const auto is_one = [](double weight) { return weight == 1; };
  const auto is_known = [](double speed) { return speed > 0; };
  if (std::all_of(speeds.begin(), speeds.end(), is_known))
    return data::balance(batch_sizes, speeds);
  if (std::all_of(weights.begin(), weights.end(), is_one)) return batch_sizes;
  return data::weigh(batch_sizes, weights);
}

}  // namespace train::sdk
