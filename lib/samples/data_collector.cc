#include "lib/samples/data_collector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "lib/samples/data_rows.h"

namespace train {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kNumberMax = std::int64_t{1} << 50;
constexpr std::int64_t kSumMax = std::int64_t{1} << 60;
constexpr Duration kSampleAgeMax = seconds(25);  // very many ranks are told each 10 s
constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::size_t kRowsMax = 32'768;  // half of what a reader takes; at most 6 MB as a line

std::int64_t in_range(std::int64_t number) {
  return std::clamp<std::int64_t>(number, 0, kNumberMax);
}
double seconds_of(std::int64_t us) { return static_cast<double>(us) / 1e6; }

}  // namespace

/// What a rank's operators have counted between two moments, and so far.
struct DataCollector::Change {
  const Moment* from = nullptr;  // null: since the beginning
  const Operators* to = nullptr;
  std::int64_t us = 0;  // the time between them; 0: what each operator was at work or waited
};

struct DataCollector::Row {
  double rows = 0, bytes = 0, busy_s = 0, input_s = 0, room_s = 0, queue_bytes = 0;  // so far
  double rows_per_s = kUnknown, bytes_per_s = kUnknown;
  double busy = kUnknown, input_wait = kUnknown, room_wait = kUnknown;
  double worst_rank = kUnknown, worst_wait = kUnknown;
  bool known = false;  // the rank has this operator
};

namespace {

struct Column {
  std::string_view field;
  double DataCollector::Row::*value;
};

}  // namespace

std::optional<std::uint16_t> DataCollector::place_of(const DataOperator& one) {
  if (static_cast<std::size_t>(one.kind) >= kOperatorKinds.size()) return std::nullopt;
  const bool is_map = one.kind == OperatorKind::Map;
  if (!is_data_name(one.dataset) || (is_map && !is_data_name(one.map))) return std::nullopt;
  Id id{one.dataset, one.kind, is_map ? one.map : std::string()};
  if (const auto found = places_.find(id); found != places_.end()) return found->second;
  if (ids_.size() == kDataOperatorsKnownMax) return std::nullopt;
  const auto place = static_cast<std::uint16_t>(ids_.size());
  ids_.push_back(id);
  places_.emplace(std::move(id), place);
  return place;
}

DataCollector::Operators DataCollector::counters_of(const RankData& rank) {
  Operators operators;
  std::set<std::uint16_t> seen;
  for (const DataOperator& one : rank.operators) {
    if (operators.size() == kDataOperatorsMax) break;
    const auto place = place_of(one);
    if (!place || !seen.insert(*place).second) continue;
    operators.emplace_back(*place, Counters{.rows = in_range(one.rows),
                                            .bytes = in_range(one.bytes),
                                            .busy_us = in_range(one.busy_us),
                                            .input_us = in_range(one.input_us),
                                            .room_us = in_range(one.room_us),
                                            .queue_bytes = in_range(one.queue_bytes)});
  }
  return operators;
}

/// Return the counters at a place, or null.
static const auto* find_place(const auto& operators, std::uint16_t place) {
  const auto found = std::find_if(operators.begin(), operators.end(),
                                  [place](const auto& one) { return one.first == place; });
  return found == operators.end() ? nullptr : &found->second;
}

void DataCollector::sampled(Attempt attempt, std::int64_t taken_us, std::span<const RankData> ranks,
                            TimePoint now) {
  if (attempt < attempt_) return;
  if (attempt > attempt_) {
    for (const auto& [rank, known] : ranks_) close(rank, known);
    ranks_.clear();
  }
  attempt_ = attempt;
  const std::int64_t at_us =
      taken_us > 0
          ? in_range(taken_us)
          : std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  for (const RankData& rank : ranks) {
    if (rank.operators.empty()) continue;
    Moment moment{at_us, counters_of(rank)};
    if (moment.operators.empty()) continue;
    const auto [found, is_new] = ranks_.try_emplace(rank.rank);
    Known& known = found->second;
    // Fewer rows than before: this is another process.
    const bool restarted =
        std::any_of(moment.operators.begin(), moment.operators.end(), [&](const auto& one) {
          const Counters* before = find_place(known.newest.operators, one.first);
          return before != nullptr && one.second.rows < before->rows;
        });
    if (restarted) close(rank.rank, known);
    if (is_new || restarted) known = {.first_us = at_us, .window = moment, .next_window = moment};
    if (at_us - known.next_window.at_us >=
        std::chrono::duration_cast<std::chrono::microseconds>(kDataWindow).count())
      known.window = std::exchange(known.next_window, moment);
    known.newest = std::move(moment);
    known.sampled_at = now;
  }
}

/// Add what a process has done to what its rank did before.
void DataCollector::close(Rank rank, const Known& known) {
  Operators& sum = ended_[rank].operators;
  const auto add = [](std::int64_t& to, std::int64_t amount) {
    to = std::min(to + amount, kSumMax);
  };
  add(ended_[rank].us, std::max<std::int64_t>(known.newest.at_us - known.first_us, 0));
  for (const auto& [place, one] : known.newest.operators) {
    if (find_place(sum, place) == nullptr) sum.emplace_back(place, Counters{});
    auto& to = std::find_if(sum.begin(), sum.end(), [place = place](const auto& entry) {
                 return entry.first == place;
               })->second;
    add(to.rows, one.rows);
    add(to.bytes, one.bytes);
    add(to.busy_us, one.busy_us);
    add(to.input_us, one.input_us);
    add(to.room_us, one.room_us);
  }
}

void DataCollector::ended(Attempt attempt, Rank rank) {
  const auto known = attempt == attempt_ ? ranks_.find(rank) : ranks_.end();
  if (known == ranks_.end()) return;
  close(rank, known->second);
  ranks_.erase(known);
}

DataCollector::Row DataCollector::row_of(const Change& change, std::uint16_t place) {
  Row row;
  const Counters* to = find_place(*change.to, place);
  if (to == nullptr) return row;
  row.known = true;
  row.rows = static_cast<double>(to->rows);
  row.bytes = static_cast<double>(to->bytes);
  row.busy_s = seconds_of(to->busy_us);
  row.input_s = seconds_of(to->input_us);
  row.room_s = seconds_of(to->room_us);
  row.queue_bytes = static_cast<double>(to->queue_bytes);
  Counters from;
  if (change.from != nullptr) {
    const Counters* before = find_place(change.from->operators, place);
    if (before != nullptr) from = *before;
  }
  const std::int64_t us = change.us > 0 ? change.us : to->busy_us + to->input_us + to->room_us;
  if (us <= 0) return row;
  const auto share = [us](std::int64_t now, std::int64_t before) {
    return std::clamp(static_cast<double>(now - before) / static_cast<double>(us), 0., 1.);
  };
  const auto rate = [us](std::int64_t now, std::int64_t before) {
    return static_cast<double>(std::max<std::int64_t>(now - before, 0)) * 1e6 /
           static_cast<double>(us);
  };
  row.rows_per_s = rate(to->rows, from.rows);
  row.bytes_per_s = rate(to->bytes, from.bytes);
  row.busy = share(to->busy_us, from.busy_us);
  row.input_wait = share(to->input_us, from.input_us);
  row.room_wait = share(to->room_us, from.room_us);
  return row;
}

std::vector<std::uint16_t> DataCollector::in_order() const {
  std::vector<std::uint16_t> order(ids_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint16_t>(i);
  const auto key = [this](std::uint16_t place) {
    return std::tie(ids_[place].dataset, ids_[place].kind);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&key](std::uint16_t a, std::uint16_t b) { return key(a) < key(b); });
  return order;
}

/// Return the ranks whose loops wait for input most, in their order.
std::vector<Rank> DataCollector::hungriest(const Changes& changes, std::size_t ranks_max) const {
  std::vector<std::pair<double, Rank>> waits;
  for (const auto& [rank, change] : changes) {
    double wait = 0;
    for (const auto& [place, counters] : *change.to)
      if (ids_[place].kind == OperatorKind::Loop)
        if (const double part = row_of(change, place).input_wait; part > wait) wait = part;
    waits.emplace_back(-wait, rank);
  }
  std::sort(waits.begin(), waits.end());
  waits.resize(std::min(waits.size(), ranks_max));
  std::vector<Rank> ranks;
  for (const auto& [wait, rank] : waits) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

SampleTable DataCollector::table_of(const Changes& changes, std::size_t ranks_max) const {
  static constexpr std::array kColumns{
      Column{"rows_total", &Row::rows},
      Column{"bytes_total", &Row::bytes},
      Column{"rows_per_s", &Row::rows_per_s},
      Column{"bytes_per_s", &Row::bytes_per_s},
      Column{"busy", &Row::busy},
      Column{"input_wait", &Row::input_wait},
      Column{"room_wait", &Row::room_wait},
      Column{"queue_bytes", &Row::queue_bytes},
      Column{"busy_s", &Row::busy_s},
      Column{"input_s", &Row::input_s},
      Column{"room_s", &Row::room_s},
      Column{"worst_rank", &Row::worst_rank},
      Column{"worst_wait", &Row::worst_wait},
  };
  SampleTable table{.kind = SampleKind::Data};
  for (const Column& column : kColumns)
    table.columns.push_back({.field = find_sample_field(table.kind, column.field)});
  const auto add = [&table](std::string name, const Row& row) {
    table.rows.push_back(std::move(name));
    for (std::size_t i = 0; i < kColumns.size(); ++i)
      table.columns[i].numbers.push_back(row.*kColumns[i].value);
  };
  const std::vector<Rank> shown = hungriest(changes, ranks_max);
  for (const std::uint16_t place : in_order()) {
    const Id& id = ids_[place];
    const std::string name =
        DataOperator{.dataset = id.dataset, .kind = id.kind, .map = id.map}.name();
    Row all;
    double ranks = 0;  // whose rates are known
    std::vector<std::pair<Rank, Row>> of_ranks;
    for (const auto& [rank, change] : changes) {
      const Row row = row_of(change, place);
      if (!row.known) continue;
      all.known = true;
      for (double Row::*sum :
           {&Row::rows, &Row::bytes, &Row::busy_s, &Row::input_s, &Row::room_s, &Row::queue_bytes})
        all.*sum += row.*sum;
      if (std::binary_search(shown.begin(), shown.end(), rank)) of_ranks.emplace_back(rank, row);
      if (std::isnan(row.busy)) continue;
      if (ranks++ == 0)
        all.rows_per_s = all.bytes_per_s = all.busy = all.input_wait = all.room_wait = 0;
      for (double Row::*sum :
           {&Row::rows_per_s, &Row::bytes_per_s, &Row::busy, &Row::input_wait, &Row::room_wait})
        all.*sum += row.*sum;
      if (id.kind == OperatorKind::Loop && !(row.input_wait <= all.worst_wait)) {
        all.worst_wait = row.input_wait;
        all.worst_rank = static_cast<double>(rank.value);
      }
    }
    if (!all.known) continue;
    for (double Row::*mean : {&Row::busy, &Row::input_wait, &Row::room_wait}) all.*mean /= ranks;
    add(data_row_name(id.dataset, name, std::nullopt), all);
    if (table.rows.size() + of_ranks.size() > kRowsMax) continue;
    for (const auto& [rank, row] : of_ranks) add(data_row_name(id.dataset, name, rank.value), row);
  }
  return table;
}

SampleTable DataCollector::dated(SampleTable table, std::int64_t wall_ms, Duration span) const {
  table.end_ms = wall_ms;
  table.span_ms = std::chrono::duration_cast<milliseconds>(span).count();
  table.attempt = attempt_.value;
  return table;
}

std::optional<SampleTable> DataCollector::newest(TimePoint now, std::int64_t wall_ms) const {
  Changes changes;
  for (const auto& [rank, known] : ranks_) {
    if (now - known.sampled_at > kSampleAgeMax) continue;
    const std::int64_t us = known.newest.at_us - known.window.at_us;
    changes[rank] = us > 0 ? Change{&known.window, &known.newest.operators, us}
                           : Change{nullptr, &known.newest.operators, 0};
  }
  if (changes.empty()) return std::nullopt;
  return dated(table_of(changes, kDataRanksNewest), wall_ms, seconds(1));
}

std::optional<SampleTable> DataCollector::kept(TimePoint now, std::int64_t wall_ms) {
  Changes changes;
  std::map<Rank, Moment> before;
  for (auto& [rank, known] : ranks_) {
    if (now - known.sampled_at > kSampleAgeMax) continue;
    if (known.kept && known.newest.at_us <= known.kept->at_us) continue;
    auto last = std::exchange(known.kept, known.newest);
    if (!last) continue;
    const std::int64_t us = known.newest.at_us - last->at_us;
    changes[rank] = {&(before[rank] = std::move(*last)), &known.newest.operators, us};
  }
  if (changes.empty()) return std::nullopt;
  std::int64_t us = 0;
  for (const auto& [rank, change] : changes) us = std::max(us, change.us);
  const std::size_t ranks_max = changes.size() <= kDataRanksKept ? changes.size() : 0;
  const Duration span = std::chrono::microseconds(std::clamp(us, kSecondUs, 60 * kSecondUs));
  return dated(table_of(changes, ranks_max), wall_ms, span);
}

std::optional<SampleTable> DataCollector::whole_run() const {
  DataCollector all;
  all.ids_ = ids_;
  all.ended_ = ended_;
  for (const auto& [rank, known] : ranks_) all.close(rank, known);
  if (all.ended_.empty()) return std::nullopt;
  Changes changes;
  for (const auto& [rank, ended] : all.ended_)
    changes[rank] = {nullptr, &ended.operators, ended.us};
  return all.table_of(changes, kDataRanksNewest);
}

}  // namespace train
