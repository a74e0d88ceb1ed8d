#include "lib/data/serve/ingest_reader.h"

#include <arrow/array/util.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <iterator>

#include "lib/base/check.h"
#include "lib/data/arrow_error.h"
#include "lib/data/read/stop_reading.h"
#include "lib/data/row_bytes.h"
#include "lib/progress/dataset_meters.h"

namespace train::data {
namespace {

/// How long it waits at most before it looks at the roster, at deadlines, and whether to stop.
constexpr int kTickMs = 20;
constexpr std::int64_t kStepsAheadAtFirst = 2;
constexpr std::size_t kUnitsNamed = 8;

/// Make a part of whose rows none could be read. What it has in their place is never used, unless
/// there is nothing else in the batch.
Result<PartRows> nothing_like(const IngestReader::Like& like, std::int64_t rows, const Error& why) {
  arrow::ArrayVector columns;
  for (const auto& field : like.schema->fields()) {
    ARROW_TRY(auto column, "cannot leave rows out",
              arrow::MakeArrayOfNull(field->type(), like.is_flat ? 0 : rows));
    columns.push_back(std::move(column));
  }
  PartRows none{
      .rows = arrow::RecordBatch::Make(like.schema, like.is_flat ? 0 : rows, std::move(columns))};
  for (std::int64_t row = 0; row < rows; ++row) {
    none.bad.push_back({row, why});
    if (!like.is_flat) none.lost.push_back(row);
  }
  if (like.is_flat) none.counts.assign(static_cast<std::size_t>(rows), 0);
  return none;
}

}  // namespace

IngestReader::IngestReader(std::shared_ptr<const ShardPlan> plan, OpenPass pass, Uses uses,
                           std::shared_ptr<DatasetMeters> meters, Limits limits)
    : plan_(std::move(plan)),
      pass_(std::move(pass)),
      uses_(std::move(uses)),
      meters_(std::move(meters)),
      limits_(limits),
      addresses_(plan_->order().spec().lanes),
      times_(limits.ask_least) {}

Result<ReadBatch> IngestReader::read(std::int64_t index) {
  const DatasetMeters::Working gathering(meters_.get(), &DatasetMeters::gather);
  read_began_ = Clock::now();
  steps_.erase(steps_.begin(), steps_.lower_bound(index));
  std::erase_if(places_, [&](const auto& ask) { return ask.second.step < index; });
  exchange();
  while (!reading_is_stopped()) {
    update_peers();
    if (reads_alone()) return read_alone(index);
    TRY_VOID(ask_ahead(index));
    const auto step = steps_.find(index);
    if (step != steps_.end()) {
      TRY_VOID(leave_deadly_rows_out(index));
      const std::vector<Part>& parts = step->second.parts;
      if (std::all_of(parts.begin(), parts.end(),
                      [](const Part& part) { return part.answer.has_value(); }))
        return finish(index);
    }
    wait();
    exchange();
    look_for_overdue(index);
  }
  return Error{Errc::Cancelled, "the pass is over"};
}

/// Follow the roster, and connect to those that are not connected.
void IngestReader::update_peers() {
  IngestRoster roster = uses_.roster();
  if (!has_roster_ || roster.version != roster_version_) {
    has_roster_ = true;
    roster_version_ = roster.version;
    std::set<std::string> named;
    for (IngestEndpoint& endpoint : roster.endpoints) {
      if (endpoint.dataset != pass_.dataset) continue;
      if (endpoint.socket.empty() && endpoint.flight.empty()) continue;
      named.insert(endpoint.name);
      Peer& peer = peers_[endpoint.name];
      if (peer.endpoint.name == endpoint.name && peer.endpoint != endpoint) {
        // A supervisor that took another's place on its node counts its processes anew.
        lose(peer, {Errc::Unavailable, "another process has its name"}, false);
        peer = Peer{};
      }
      peer.endpoint = std::move(endpoint);
    }
    for (auto& [name, peer] : peers_)
      if (!named.contains(name))
        lose(peer, {Errc::Unavailable, "it is in the roster no longer"}, false);
    std::erase_if(peers_, [&](const auto& one) { return !named.contains(one.first); });
  }
  for (auto& [name, peer] : peers_)
    if (!peer.connection && !peer.refused && Clock::now() >= peer.retry_at) connect(peer);
  std::vector<std::string> usable;
  for (const auto& [name, peer] : peers_)
    if (peer.usable()) usable.push_back(name);
  if (usable == usable_) return;
  usable_ = std::move(usable);
  if (!usable_.empty()) owners_ = address_owners(usable_, addresses_.count());
}

void IngestReader::connect(Peer& peer) {
  peer.retry_at = Clock::now() + limits_.reconnect_after;
  auto connection = uses_.connect(peer.endpoint);
  if (connection.has_error()) {
    // One of another user, or that this program cannot use, is worth a line; one that has gone is
    // not.
    if (connection.error().code != Errc::Io && connection.error().code != Errc::NotFound &&
        connection.error().code != Errc::Unavailable && told_.insert(peer.endpoint.name).second)
      uses_.say(
          fmt::format("{} cannot be asked: {}", peer.endpoint.name, connection.error().describe()));
    return;
  }
  peer.slow = false;
  peer.connection = std::move(*connection);
  if (auto opened = peer.connection->open(pass_); opened.has_error()) lose(peer, opened.error());
}

/// Give a connection up. What was asked of it is asked of others.
void IngestReader::lose(Peer& peer, const Error& why, bool named) {
  if (!peer.connection) return;
  peer.connection.reset();
  if (why.code != Errc::Unavailable && told_.insert(peer.endpoint.name).second)
    uses_.say(fmt::format("{} is not asked any longer: {}", peer.endpoint.name, why.describe()));
  const bool has_ended = why.code == Errc::Unavailable && !peer.slow && named;
  bool first = true;
  std::optional<std::int64_t> deadly;
  for (auto& [number, step] : steps_) {
    for (Part& part : step.parts) {
      const auto asked = std::find_if(part.asked.begin(), part.asked.end(), [&](const Asked& one) {
        return one.peer == peer.endpoint.name;
      });
      if (asked == part.asked.end()) continue;
      places_.erase(asked->sequence);
      part.asked.erase(asked);
      // It reads what is needed first. One that does not answer has not ended.
      if (std::exchange(first, false) && has_ended) {
        ++part.deaths;
        if (!step.is_fine && part.deaths > 1) deadly = number;
      }
    }
  }
  if (deadly) narrow_down(*deadly);
}

/// Ask for the rows of a step by single addresses, to learn at which of them ingest workers die.
void IngestReader::narrow_down(std::int64_t at_step) {
  std::erase_if(places_, [&](const auto& ask) { return ask.second.step == at_step; });
  Step& step = steps_.at(at_step);
  const auto most =
      std::max_element(step.parts.begin(), step.parts.end(),
                       [](const Part& a, const Part& b) { return a.deaths < b.deaths; });
  const AddressSet suspects = most->addresses;
  const int deaths = most->deaths;  // one more shows which of them it is
  step = divide(at_step, /*finely=*/true);
  for (Part& part : step.parts) {
    const auto at = std::find(part.addresses.begin(), part.addresses.end(), true);
    if (suspects[static_cast<std::size_t>(at - part.addresses.begin())])
      part.deaths = std::max(part.deaths, deaths);
  }
}

/// Return the rows of a part in their order: of which units they are.
std::vector<IngestReader::RowPlace> IngestReader::rows_of(std::int64_t at_step, std::size_t part,
                                                          const Step& divided) const {
  std::vector<RowPlace> all, of_part;
  for (const RowRange& range : plan_->batch(at_step).ranges)
    for (std::int64_t row = 0; row < range.count; ++row)
      all.push_back({range.unit, range.first + row});
  std::size_t at = 0;
  for (const RowsFromPart& from : divided.order)
    for (std::int64_t i = 0; i < from.count && at < all.size(); ++i, ++at)
      if (from.part == part) of_part.push_back(all[at]);
  return of_part;
}

/// Take the rows at which ingest workers have died for rows that cannot be decoded. An error unless
/// such rows are left out.
Result<Unit> IngestReader::leave_deadly_rows_out(std::int64_t index) {
  Step& step = steps_.at(index);
  const auto is_deadly = [&](const Part& part) {
    return !part.answer && part.deaths >= limits_.deaths_max;
  };
  for (std::size_t number = 0; number < step.parts.size(); ++number) {
    Part& part = step.parts[number];
    if (!is_deadly(part)) continue;
    const std::vector<RowPlace> rows = rows_of(index, number, step);
    Error why{Errc::Unavailable,
              fmt::format("{} ingest workers have ended while they read it", part.deaths)};
    std::set<std::int64_t> units;  // of rows that came together
    for (const RowPlace& place : rows)
      if (units.insert(place.unit).second && units.size() > 1 && units.size() <= kUnitsNamed)
        why.message += ", or " + uses_.describe(place.unit, place.row);
    if (units.size() > kUnitsNamed)
      why.message += fmt::format(", or rows of {} others", units.size() - kUnitsNamed);
    for (const RowPlace& place : rows) TRY_VOID(uses_.leave_out(place.unit, place.row, why));
    if (units.size() == 1) uses_.deadly_units->insert(rows.front().unit);
    if (like_) {
      TRY(part.answer, nothing_like(*like_, part.rows, why));
    } else if (std::all_of(step.parts.begin(), step.parts.end(), is_deadly)) {
      return Error(why).with_context(fmt::format("no row of step {} can be read", index));
    }
  }
  return Unit{};
}

/// Return whether there has been nobody to ask for too long. Say so once, and when there is again.
bool IngestReader::reads_alone() {
  if (!usable_.empty()) {
    nobody_since_.reset();
    alone_.reset();
    if (std::exchange(*uses_.reads_alone, false)) uses_.say("ingest workers are asked again");
    return false;
  }
  const auto now = Clock::now();
  if (!nobody_since_) nobody_since_ = now;
  if (!*uses_.reads_alone && now - *nobody_since_ < limits_.alone_after) return false;
  if (!std::exchange(*uses_.reads_alone, true)) {
    uses_.say(
        fmt::format("no ingest worker has answered for {} s: this rank reads for itself until "
                    "one does",
                    std::chrono::duration_cast<std::chrono::seconds>(limits_.alone_after).count()));
    steps_.clear();
    places_.clear();
  }
  return true;
}

/// Send and take what can be without waiting.
void IngestReader::exchange() {
  for (auto& [name, peer] : peers_) {
    if (!peer.connection) continue;
    std::vector<PartAnswer> answers;
    auto exchanged = peer.connection->exchange(answers);
    for (PartAnswer& answer : answers) take(peer, std::move(answer));
    if (exchanged.has_error()) lose(peer, exchanged.error());
  }
}

void IngestReader::take(Peer& peer, PartAnswer answer) {
  if (answer.sequence == 0) {  // no ask of this pass can be answered
    if (answer.part.has_error() && !std::exchange(peer.refused, true))
      lose(peer, {Errc::InvalidArgument, answer.part.error().describe()});
    return;
  }
  const auto place = places_.find(answer.sequence);
  peer.slow = false;
  if (place == places_.end()) return;  // somebody else was faster
  const auto step = steps_.find(place->second.step);
  const std::size_t number = place->second.part;
  places_.erase(place);
  if (step == steps_.end()) return;
  Part& part = step->second.parts[number];
  const auto asked = std::find_if(part.asked.begin(), part.asked.end(), [&](const Asked& one) {
    return one.sequence == answer.sequence;
  });
  if (asked == part.asked.end() || asked->peer != peer.endpoint.name) return;
  count_time(*asked);
  part.asked.erase(asked);
  if (part.answer) return;
  auto checked = answer.part.has_error() ? Result<Unit>(answer.part.error())
                                         : check_part(*answer.part, part.rows);
  if (checked.has_error()) {
    part.failed.insert(peer.endpoint.name);
    part.error = std::move(checked).error();
    return;
  }
  part.answer = std::move(*answer.part);
  like_ = {part.answer->rows->schema(), !part.answer->counts.empty()};
  uses_.count(part.answer->operators);
}

/// Count how long the rank has waited for an answer: what came while it did something else tells
/// nothing.
void IngestReader::count_time(const Asked& asked) {
  const auto now = Clock::now();
  if (asked.at >= read_began_) {
    times_.add(now - asked.at);
  } else if (now - read_began_ > std::chrono::milliseconds(1)) {
    times_.add(now - read_began_);
  }
}

/// Divide a step among those that can be asked.
IngestReader::Step IngestReader::divide(std::int64_t step, bool finely) const {
  const std::set<std::int64_t>& deadly = *uses_.deadly_units;
  if (!finely && !deadly.empty()) {
    const PlannedBatch planned = plan_->batch(step);
    finely = std::any_of(planned.ranges.begin(), planned.ranges.end(),
                         [&](const RowRange& range) { return deadly.contains(range.unit); });
  }
  Step divided;
  divided.is_fine = finely;
  std::map<std::size_t, std::size_t> part_of;  // by owner; finely: by address
  for (const LaneRows& rows : plan_->lane_rows(step)) {
    const auto address = static_cast<std::size_t>(addresses_.of(rows.lane, step));
    const auto [found, is_new] =
        part_of.try_emplace(finely ? address : owners_[address], divided.parts.size());
    if (is_new) {
      Part part;
      for (std::size_t at = 0; at < owners_.size(); ++at)
        part.addresses.push_back(finely ? at == address : owners_[at] == owners_[address]);
      divided.parts.push_back(std::move(part));
    }
    divided.parts[found->second].rows += rows.count;
    divided.order.push_back({found->second, rows.count});
  }
  for (std::size_t part = 0; part < divided.parts.size() && !deadly.empty(); ++part) {
    for (const RowPlace& place : rows_of(step, part, divided))
      if (deadly.contains(place.unit)) divided.parts[part].deaths = limits_.deaths_max;
  }
  return divided;
}

std::int64_t IngestReader::steps_ahead() const {
  if (step_bytes_ == 0) return kStepsAheadAtFirst;
  return std::clamp<std::int64_t>(pass_.credit_bytes / step_bytes_, 1, limits_.steps_ahead);
}

/// Ask for what is not asked for, of this step and the next ones.
Result<Unit> IngestReader::ask_ahead(std::int64_t index) {
  if (usable_.empty()) return Unit{};
  const std::int64_t end = std::min(index + steps_ahead(), plan_->batches());
  for (std::int64_t number = index; number < end; ++number) {
    auto step = steps_.find(number);
    if (step == steps_.end()) step = steps_.emplace(number, divide(number, /*finely=*/false)).first;
    for (std::size_t part = 0; part < step->second.parts.size(); ++part) {
      const Part& one = step->second.parts[part];
      const bool is_asked =
          std::any_of(one.asked.begin(), one.asked.end(), [&](const Asked& asked) {
            const auto peer = peers_.find(asked.peer);
            return peer != peers_.end() && peer->second.usable();
          });
      if (one.answer || is_asked || one.deaths >= limits_.deaths_max) continue;
      auto asked = ask_somebody(number, part);
      if (asked.has_error() && number == index) return asked;
    }
  }
  return Unit{};
}

/// Ask the next one of those that have neither this ask nor failed at it. An error if all have
/// failed.
Result<Unit> IngestReader::ask_somebody(std::int64_t step, std::size_t number) {
  Part& part = steps_.at(step).parts[number];
  Peer* const peer = next_peer(part);
  if (peer == nullptr) {
    // Those that are slow may still answer.
    const bool waits = !part.asked.empty() && Clock::now() - read_began_ < limits_.alone_after;
    return part.error && !waits ? Result<Unit>(*part.error) : Result<Unit>(Unit{});
  }
  const std::uint64_t sequence = ++sequence_;
  part.asked.push_back({peer->endpoint.name, sequence, Clock::now()});
  places_[sequence] = {step, number};
  auto asked =
      peer->connection->ask({.sequence = sequence, .step = step, .addresses = part.addresses});
  if (asked.has_error()) lose(*peer, asked.error());
  return Unit{};
}

/// Return who is to be asked for a part: its owner, or else the next by the hash of its name.
IngestReader::Peer* IngestReader::next_peer(const Part& part) {
  const auto first =
      std::find(part.addresses.begin(), part.addresses.end(), true) - part.addresses.begin();
  const std::string* best = nullptr;
  std::uint64_t best_score = 0;
  for (std::size_t at = 0; at < usable_.size(); ++at) {
    const std::string& name = usable_[at];
    const auto peer = peers_.find(name);
    if (peer == peers_.end() || !peer->second.usable() || part.failed.contains(name) ||
        std::any_of(part.asked.begin(), part.asked.end(),
                    [&](const Asked& asked) { return asked.peer == name; }))
      continue;
    const bool owns = owners_[static_cast<std::size_t>(first)] == at;
    const std::uint64_t score = owns ? ~std::uint64_t{0} : address_score(name, first) >> 1;
    if (best != nullptr && score <= best_score) continue;
    best = &name;
    best_score = score;
  }
  return best == nullptr ? nullptr : &peers_.at(*best);
}

/// Stop asking those that keep the rank waiting for too long; ask_ahead() asks others.
void IngestReader::look_for_overdue(std::int64_t index) {
  const auto step = steps_.find(index);
  if (step == steps_.end()) return;
  const auto now = Clock::now();
  for (const Part& part : step->second.parts) {
    if (part.answer) continue;
    for (const Asked& asked : part.asked) {
      const auto peer = peers_.find(asked.peer);
      if (peer != peers_.end() && now - std::max(asked.at, read_began_) > times_.deadline())
        peer->second.slow = true;
    }
  }
}

void IngestReader::wait() {
  const DatasetMeters::Working waiting(meters_.get(), static_cast<DataMeter*>(nullptr));
  std::vector<pollfd> entries;
  for (const auto& [name, peer] : peers_) {
    if (!peer.connection) continue;
    const auto events =
        static_cast<short>(peer.connection->wants_to_write() ? POLLIN | POLLOUT : POLLIN);
    entries.push_back({.fd = peer.connection->descriptor(), .events = events, .revents = 0});
  }
  ::poll(entries.data(), entries.size(), kTickMs);
}

Result<ReadBatch> IngestReader::finish(std::int64_t index) {
  const Step step = std::move(steps_.at(index));
  steps_.erase(index);
  for (const Part& part : step.parts)
    for (const Asked& asked : part.asked) places_.erase(asked.sequence);
  std::vector<const PartRows*> parts;
  for (const Part& part : step.parts) parts.push_back(&*part.answer);
  const PlannedBatch planned = plan_->outline(index);
  TRY(JoinedRows joined, join_parts(parts, step.order, planned.valid_rows));
  if (!joined.bad.empty()) {
    std::vector<std::pair<std::int64_t, std::int64_t>> places;  // unit, row
    for (const RowRange& range : plan_->batch(index).ranges)
      for (std::int64_t row = 0; row < range.count; ++row)
        places.emplace_back(range.unit, range.first + row);
    for (RowError& one : joined.bad) {
      const auto [unit, row] = places.at(static_cast<std::size_t>(one.row));
      TRY_VOID(uses_.leave_out(unit, row, std::move(one.why)));
    }
  }
  step_bytes_ = std::max<std::int64_t>(1, bytes_of_rows(*joined.rows));
  if (meters_) meters_->gather().passed(joined.rows->num_rows(), step_bytes_);
  return ReadBatch{.rows = std::move(joined.rows),
                   .valid_rows = joined.valid_rows,
                   .rows_consumed = planned.rows_consumed,
                   .weight = planned.weight};
}

Result<ReadBatch> IngestReader::read_alone(std::int64_t index) {
  if (!alone_) alone_ = uses_.read_alone();
  return alone_->read(index);
}

}  // namespace train::data
