#include <train/context.h>

#include <cmath>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/reports.h"
#include "sdk/client/failure.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/worker_session.h"

namespace train {
namespace {

const sdk::WorkerInfo& info() { return sdk::worker_info(); }

double combine(double a, double b, Reduce how) {
  switch (how) {
    case Reduce::Mean:
    case Reduce::Sum:
      return a + b;
    // a NaN of any rank makes the result NaN, in any order
    case Reduce::Min:
      return std::isnan(a) || b > a ? a : b;
    case Reduce::Max:
      return std::isnan(a) || b < a ? a : b;
  }
  return a;
}

Metrics metrics_of(const std::string& part, int rank) {
  ReportBatch batch{.rank = rank, .first_report_seq = 1, .count = 1, .data = part};
  auto records = sdk::value_or_throw(read_reports(batch, 0));
  return std::move(records.front().metrics);
}

double number_of(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

/// Return the metrics of all ranks, by rank, after checking that they have rank 0's keys.
std::vector<Metrics> gather(const Dict& metrics) {
  const Metrics mine = sdk::flatten(metrics);
  for (const auto& [name, value] : mine) {
    if (value.index() > 1)
      throw Failure("invalid_argument", "reduce: '" + name + "' is not a number");
  }
  std::string packed;
  append_report(0, false, mine, packed);
  const auto parts = sdk::all_gather("reduce", packed);
  std::vector<Metrics> all;
  for (const std::string& part : parts) {
    all.push_back(metrics_of(part, static_cast<int>(all.size())));
    const Metrics& first = all.front();
    const Metrics& other = all.back();
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      if (i < first.size() && i < other.size() && first[i].first == other[i].first) continue;
      const std::string& name = i < first.size() ? first[i].first : other[i].first;
      throw Failure("invalid_argument", "reduce: rank 0 and rank " +
                                            std::to_string(all.size() - 1) +
                                            " give different metrics, first at '" + name +
                                            "' (all ranks give the same names)");
    }
  }
  return all;
}

}  // namespace

int Context::world_size() const { return info().world_size; }
int Context::world_rank() const { return info().rank; }
int Context::local_rank() const { return info().local_rank; }
int Context::local_world_size() const { return info().local_world_size; }
std::string Context::role() const { return info().role_name; }
int Context::node_rank() const { return info().node_rank; }
int Context::node_count() const { return info().node_count; }
int Context::attempt() const { return static_cast<int>(info().attempt); }
bool Context::supervised() const { return info().supervised; }
std::string Context::run_name() const { return info().run_name; }
std::string Context::run_id() const { return info().run_id; }
std::string Context::storage_path() const { return info().run_dir; }
const Dict& Context::metadata() const { return info().metadata; }
const Config& Context::config() const { return info().config; }

const Context& get_context() {
  static const Context context;
  info();  // connects, or throws now
  return context;
}

int per_worker_batch(int global_batch) {
  const sdk::WorkerInfo& worker = info();
  if (global_batch < worker.world_size) {
    throw Failure("invalid_argument", "per_worker_batch: a global batch of " +
                                          std::to_string(global_batch) +
                                          " is less than one row for each of " +
                                          std::to_string(worker.world_size) + " workers");
  }
  return global_batch / worker.world_size +
         (worker.rank < global_batch % worker.world_size ? 1 : 0);
}

void barrier(std::chrono::milliseconds timeout) { sdk::all_gather("barrier", {}, timeout); }

Value broadcast_from_rank_zero(const Value& value) {
  const auto parts = sdk::all_gather("broadcast_from_rank_zero",
                                     info().rank == 0 ? to_json(value) : std::string());
  return parse_json(parts.front());
}

List all_gather(const Value& value) {
  List all;
  for (const std::string& part : sdk::all_gather("all_gather", to_json(value)))
    all.push_back(parse_json(part));
  return all;
}

Dict reduce(const Dict& metrics, Reduce how) {
  const std::vector<Metrics> all = gather(metrics);
  Dict result;
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    double combined = number_of(all.front()[i].second);
    bool whole = how != Reduce::Mean;
    std::int64_t whole_combined = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const MetricValue& value = all[rank][i].second;
      if (rank > 0) combined = combine(combined, number_of(value), how);
      const auto* integer = std::get_if<std::int64_t>(&value);
      whole = whole && integer != nullptr;
      if (!whole) continue;
      if (rank == 0) {
        whole_combined = *integer;
      } else if (how == Reduce::Sum) {
        whole = !__builtin_add_overflow(whole_combined, *integer, &whole_combined);
      } else {
        whole_combined = how == Reduce::Min ? std::min(whole_combined, *integer)
                                            : std::max(whole_combined, *integer);
      }
    }
    if (how == Reduce::Mean) combined /= static_cast<double>(all.size());
    result.emplace(all.front()[i].first, whole ? Value(whole_combined) : Value(combined));
  }
  return result;
}

void once_per_node(const std::string& name, const std::function<void()>& f) {
  sdk::current_session().once_per_node(name, f);
}

}  // namespace train
