#include "tests/unit/lib_storage/segment_lives.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

namespace train {
namespace {

const std::string kPath = "/run/events.jsonl";
const std::string kTime = "2026-11-21T09:38:00.123456Z";

class RightSegments final : public Segments {
 public:
  explicit RightSegments(ObjectStore& store) : segments_(store, kFewSegments) {}
  Result<std::string> read() override { return segments_.read(); }
  Result<Unit> append(std::string_view lines,
                      const std::function<Result<std::string>()>& whole) override {
    return segments_.append(lines, whole);
  }
  Result<Unit> check() override { return segments_.check(); }

 private:
  JournalSegments segments_;
};

std::string name_of(const JournalRecord& record) {
  return std::string(record.event.at("event").as_string());
}

/// Return "" if `found` begins with `certain`.
std::string missing(const std::vector<JournalRecord>& certain,
                    const std::vector<JournalRecord>& found) {
  for (std::size_t i = 0; i < certain.size(); ++i) {
    const std::string is = i < found.size() ? format_record(found[i]).value() : "not there";
    if (i >= found.size() || found[i] != certain[i])
      return fmt::format("acknowledged: {}found: {}", format_record(certain[i]).value(), is);
  }
  return {};
}

}  // namespace

std::unique_ptr<Segments> right_segments(ObjectStore& store) {
  return std::make_unique<RightSegments>(store);
}

bool SegmentOwner::resolve(const Result<Unit>& wrote, const std::vector<JournalRecord>& group) {
  if (!wrote.has_error()) {
    if (fenced_) note(fmt::format("owner {} was fenced, and its group is acknowledged", id_));
    certain_.insert(certain_.end(), group.begin(), group.end());
    never_.insert(refused_.begin(), refused_.end());
    refused_.clear();
    return true;
  }
  fenced_ = fenced_ || wrote.error().code == Errc::Fenced;
  if (wrote.error().code == Errc::Corrupt) note(wrote.error().describe());
  for (const JournalRecord& record : group) refused_.push_back(name_of(record));
  return false;
}

bool SegmentOwner::take_over() {
  fenced_ = false;
  refused_.clear();
  generation_ = Generation{};
  segments_ = open_(store);
  const auto text = segments_->read();
  if (text.has_error()) {
    if (text.error().code != Errc::Unavailable) note(text.error().describe());
    return false;
  }
  disk_ = std::make_unique<fakes::MemoryFileSystem>();
  disk_->put("/run/", "");
  if (!text->empty()) disk_->put(kPath, *text);
  auto journal =
      Journal::open(*disk_, kPath, {}, [this](std::string_view lines, const auto& whole) {
        return segments_->append(lines, whole);
      });
  if (journal.has_error()) {
    note(journal.error().describe());
    return false;
  }
  journal_ = std::move(*journal);
  if (const auto& damage = journal_->replayed().damage; damage) note("found " + damage->what);
  const auto generation = journal_->take_generation(kTime, {{"owner", id_}, {"nonce", ++events_}});
  if (generation.has_error()) return resolve(generation.error(), {});
  generation_ = *generation;
  certain_ = journal_->replayed().records;  // not earlier: the owner may replace the last group
  return resolve(Unit{},
                 {{.seq = certain_.size() + 1,
                   .group = certain_.size() + 1,
                   .generation = *generation,
                   .time = kTime,
                   .event = {{"event", kGenerationTaken}, {"owner", id_}, {"nonce", events_}}}});
}

bool SegmentOwner::append(int count) {
  std::vector<boost::json::object> events;
  std::vector<JournalRecord> group;
  for (int n = 0; n < count; ++n) {
    events.push_back({{"event", fmt::format("{}.{}", id_, ++events_)}});
    group.push_back({.seq = certain_.size() + 1 + group.size(),
                     .group = certain_.size() + 1,
                     .generation = generation_,
                     .time = kTime,
                     .event = events.back()});
  }
  return resolve(journal_->append(events, kTime), group);
}

bool SegmentOwner::check() {
  const auto checked = segments_->check();
  if (checked.has_error()) fenced_ = fenced_ || checked.error().code == Errc::Fenced;
  return !checked.has_error();
}

SegmentOwner& SegmentRun::owner() {
  owners_.push_back(
      std::make_unique<SegmentOwner>(static_cast<int>(owners_.size()), objects, open_));
  return *owners_.back();
}

std::string SegmentRun::violation() {
  for (const auto& owner : owners_)
    if (!owner->violations_.empty()) return owner->violations_.front();
  fakes::MemoryObjectStore store(objects);
  const auto text = open_(store)->read();
  if (text.has_error()) return "cannot read: " + text.error().describe();
  const JournalReplay replay = replay_journal(*text);
  if (replay.damage) return fmt::format("line {}: {}", replay.damage->line, replay.damage->what);
  for (const auto& owner : owners_) {
    if (std::string lost = missing(owner->certain_, replay.records); !lost.empty())
      return fmt::format("owner {}: {}", owner->id_, lost);
    for (const JournalRecord& record : replay.records)
      if (owner->never_.contains(name_of(record)))
        return fmt::format("{} was refused, then followed, and is read", name_of(record));
    const bool newest = !replay.records.empty() && replay.generation() == owner->generation_;
    if (newest || owner->segments_ == nullptr || owner->store.ended()) continue;
    // An owner that failed to take the run need not notice who owns it.
    if (owner->journal_ != nullptr && owner->generation_ != Generation{} && owner->check())
      return fmt::format("owner {} was replaced, and does not notice", owner->id_);
  }
  return {};
}

}  // namespace train
