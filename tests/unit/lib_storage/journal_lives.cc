#include "tests/unit/lib_storage/journal_lives.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "lib/storage/digest.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
namespace json = boost::json;

constexpr auto kWhole = MemoryFileSystem::kWhole;
// Number of events in each group of each owner. The group of four is followed by a short one, so
// that remains of a failed group fit behind it. The group of nine spans several sectors.
const std::vector<std::vector<int>> kOwners = {{4, 1, 9}, {1, 3}, {2}};
// If a crash has more states than this, sample them.
constexpr std::uint64_t kStatesMax = 4000, kSamples = 200;
constexpr std::size_t kTearSometimes = 47;

std::vector<json::object> events_of(std::size_t owner, std::size_t group, int count) {
  std::vector<json::object> events;
  for (int n = 0; n < count; ++n)
    events.push_back({{"event", "step"}, {"owner", owner}, {"group_", group}, {"n", n}});
  return events;
}

class RightOwner final : public JournalOwner {
 public:
  explicit RightOwner(std::unique_ptr<Journal> journal) : journal_(std::move(journal)) {}
  std::vector<JournalRecord> found() const override { return journal_->replayed().records; }
  Result<Generation> take_generation() override {
    return journal_->take_generation(kJournalTime, {});
  }
  Result<Unit> append(const std::vector<json::object>& events) override {
    return journal_->append(events, kJournalTime);
  }

 private:
  std::unique_ptr<Journal> journal_;
};

std::string own(MemoryFileSystem& disk, const OpenJournal& open, std::size_t owner,
                bool faults_are_expected, JournalLedger& ledger) {
  const auto broken = [&](std::string_view doing, const Error& error) -> std::string {
    if (disk.power_lost() || (faults_are_expected && error.code != Errc::Corrupt)) return {};
    return fmt::format("owner {} cannot {}: {}", owner, doing, error.describe());
  };
  const Generation before = ledger.certain().empty()
                                ? Generation{}
                                : ledger.certain().back().generation;  // already given to an owner
  const auto journal = open(disk);
  if (journal.has_error()) return broken("open", journal.error());
  const auto found = (*journal)->found();
  if (std::string wrong = ledger.violation(found); !wrong.empty())
    return fmt::format("owner {}: {}", owner, wrong);
  ledger.opened(found);

  const Generation next = found.empty() ? Generation{1} : found.back().generation.next();
  ledger.begins({{{"event", kGenerationTaken}}}, next);
  const auto generation = (*journal)->take_generation();
  if (generation.has_error()) return broken("take its generation", generation.error());
  if (*generation != next || *generation <= before)
    return fmt::format("owner {} has generation {} after {}", owner, generation->value,
                       before.value);
  ledger.acknowledged();
  for (std::size_t group = 0; group < kOwners[owner].size(); ++group) {
    const auto events = events_of(owner, group, kOwners[owner][group]);
    ledger.begins(events, *generation);
    const auto wrote = (*journal)->append(events);
    if (wrote.has_error()) {
      if (std::string wrong = broken("append", wrote.error()); !wrong.empty()) return wrong;
      if (disk.power_lost()) return {};
      continue;  // as the launcher does: the next group may succeed
    }
    ledger.acknowledged();
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<JournalOwner>> open_right_journal(FileSystem& fs) {
  TRY(auto journal, Journal::open(fs, kJournalPath));
  return std::make_unique<RightOwner>(std::move(journal));
}

std::string JournalLedger::violation(const std::vector<JournalRecord>& found) const {
  for (std::size_t i = 0; i < certain_.size(); ++i) {
    if (i >= found.size())
      return fmt::format("{} records were acknowledged, {} are there", certain_.size(),
                         found.size());
    if (found[i] != certain_[i]) return fmt::format("record {} is another one", i + 1);
  }
  const std::size_t more = found.size() - certain_.size();
  if (more == 0) return {};
  for (const auto& group : possible_)
    if (more <= group.size() &&
        std::equal(found.begin() + static_cast<long>(certain_.size()), found.end(), group.begin()))
      return {};
  return fmt::format("{} records after record {} are no group's beginning", more, certain_.size());
}

void JournalLedger::opened(std::vector<JournalRecord> found) {
  certain_ = std::move(found);
  possible_.clear();
}

void JournalLedger::begins(const std::vector<json::object>& events, Generation generation) {
  std::vector<JournalRecord> group;
  for (const json::object& event : events)
    group.push_back({certain_.size() + group.size() + 1, certain_.size() + 1, generation,
                     kJournalTime, json::parse(json::serialize(event)).as_object()});
  possible_.push_back(std::move(group));
}

void JournalLedger::acknowledged() {
  certain_.insert(certain_.end(), possible_.back().begin(), possible_.back().end());
  possible_.clear();
}

std::string JournalLedger::text() const {
  std::string text;
  const auto add = [&](const JournalRecord& record) { text += format_record(record).value(); };
  for (const auto& record : certain_) add(record);
  for (const auto& group : possible_) {
    text += "possibly\n";
    for (const auto& record : group) add(record);
  }
  return text;
}

std::string JournalFaults::describe() const {
  std::string text;
  if (fail_at != 0)
    text += fmt::format("change {} fails ({}), ", fail_at, std::strerror(error_number));
  if (kill.at != 0) text += fmt::format("killed at change {} (byte {}), ", kill.at, kill.bytes);
  return text + fmt::format("power cut at change {}", power.at);
}

std::string live(MemoryFileSystem& disk, const OpenJournal& open, const JournalFaults& faults,
                 JournalLedger& ledger) {
  bool kill_is_due = faults.kill.at != 0;
  const Cut& first = kill_is_due ? faults.kill : faults.power;
  disk.cut_power_at(first.at, first.bytes);
  if (faults.fail_at != 0) disk.fail_at(faults.fail_at, faults.error_number);
  for (std::size_t owner = 0; owner < kOwners.size(); ++owner) {
    if (std::string wrong = own(disk, open, owner, faults.fail_at != 0, ledger); !wrong.empty())
      return wrong;
    if (!disk.power_lost()) continue;
    if (!kill_is_due) return {};
    kill_is_due = false;
    disk.start_again();
    disk.cut_power_at(faults.power.at, faults.power.bytes);
  }
  return {};
}

std::unique_ptr<MemoryFileSystem> JournalExplorer::new_disk() const {
  auto disk = std::make_unique<MemoryFileSystem>();
  disk->put("/run/", "");
  disk->skip_syncs(skip_files_, skip_folders_);
  return disk;
}

bool JournalExplorer::explore(const JournalFaults& faults, std::size_t tear_every) {
  if (done()) return false;
  auto disk = new_disk();
  JournalLedger ledger;
  const std::string wrong = live(*disk, open_, faults, ledger);
  const std::string how = fmt::format("{} ({})", faults.describe(), disk->trace().back());
  if (!wrong.empty()) {
    violations_.push_back(how + ": " + wrong);
    return disk->power_lost();
  }
  look(disk->after_kill(), ledger, ledger.text(), how + ", machine alive");
  look_at_all(*disk, ledger, tear_every, how);
  return disk->power_lost();
}

void JournalExplorer::look_at_all(const MemoryFileSystem& disk, const JournalLedger& ledger,
                                  std::size_t tear_every, const std::string& how) {
  fakes::AllChoices all;
  std::uint64_t states = 0;
  const std::string known = ledger.text();
  do {
    look(disk.after_power_cut(std::ref(all), tear_every), ledger, known, how);
  } while (!done() && all.next() && ++states < kStatesMax);
  if (states < kStatesMax) return;
  for (std::uint64_t seed = 1; seed <= kSamples && !done(); ++seed)
    look(disk.after_power_cut(seed), ledger, known, fmt::format("{}, seed {}", how, seed));
}

void JournalExplorer::look(std::unique_ptr<MemoryFileSystem> after, const JournalLedger& ledger,
                           const std::string& known, const std::string& how) {
  std::string state = known;
  for (const std::string& path : after->tree()) state += path + "\n" + after->get(path);
  if (!seen_.insert(digest64_of(state)).second) return;
  if (keep_states_) kept_.emplace_back(after->after_kill(), ledger);
  after->skip_syncs(skip_files_, skip_folders_);
  if (std::string wrong = recover(*after, ledger); !wrong.empty())
    violations_.push_back(how + ": " + wrong);
}

std::string JournalExplorer::recover(MemoryFileSystem& disk, JournalLedger ledger) const {
  const Generation before =
      ledger.certain().empty() ? Generation{} : ledger.certain().back().generation;
  for (int recovery = 1; recovery <= 2; ++recovery) {
    const auto journal = open_(disk);
    if (journal.has_error())
      return fmt::format("recovery {}: {}", recovery, journal.error().describe());
    if (std::string wrong = ledger.violation((*journal)->found()); !wrong.empty())
      return fmt::format("recovery {}: {}", recovery, wrong);
    ledger.opened((*journal)->found());
    const Generation next =
        ledger.certain().empty() ? Generation{1} : ledger.certain().back().generation.next();
    ledger.begins({{{"event", kGenerationTaken}}}, next);
    const auto generation = (*journal)->take_generation();
    if (generation.has_error())
      return "taking a generation again: " + generation.error().describe();
    if (*generation <= before) return "a generation comes again";
    ledger.acknowledged();
    const std::vector<json::object> events = {{{"event", "again"}}, {{"event", "and again"}}};
    ledger.begins(events, *generation);
    if (auto wrote = (*journal)->append(events); wrote.has_error())
      return "appending again: " + wrote.error().describe();
    ledger.acknowledged();
  }
  // What both acknowledged survives another power cut.
  auto journal = open_(*disk.after_power_cut(0));
  if (journal.has_error()) return "after recovery: " + journal.error().describe();
  std::string wrong = ledger.violation((*journal)->found());
  return wrong.empty() ? wrong : "after recovery: " + wrong;
}

void JournalExplorer::cut_power_everywhere() {
  for (const std::size_t bytes : {std::size_t{0}, kWhole})
    for (std::uint64_t n = 1; explore({.power = {n, bytes}}, 1); ++n) {
    }
}

void JournalExplorer::kill_then_cut_power() {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{150}, kWhole})
    for (std::uint64_t k = 1, cuts = 2; cuts > 1; ++k)
      for (cuts = 1; explore({.kill = {k, bytes}, .power = {cuts, 0}}, kTearSometimes); ++cuts) {
      }
}

void JournalExplorer::fail_then_cut_power(int error_number) {
  bool any = true;
  for (std::uint64_t f = 1; any; ++f) {
    any = false;
    for (std::uint64_t n = f + 1;
         explore({.fail_at = f, .error_number = error_number, .power = {n, 0}}, kTearSometimes);
         ++n)
      any = true;
  }
}

void JournalExplorer::fail_then_kill_then_cut_power() {
  std::uint64_t cuts = 0;
  const auto all_cuts = [&](std::uint64_t f, std::uint64_t later) {
    const std::uint64_t before = cuts;
    while (explore({.fail_at = f,
                    .error_number = EIO,
                    .kill = {f + later, kWhole},
                    .power = {cuts - before + 1, 0}},
                   kTearSometimes))
      ++cuts;
    return cuts > before;
  };
  for (std::uint64_t f = 1; all_cuts(f, 1); ++f)
    for (const std::uint64_t later : {2, 3, 4, 6}) all_cuts(f, later);
}

void JournalExplorer::cut_power_again_while_recovering() {
  keep_states_ = true;
  for (std::uint64_t n = 1; explore({.power = {n, 0}}, kTearSometimes); ++n) {
  }
  keep_states_ = false;
  const auto states = std::exchange(kept_, {});
  for (const auto& [state, ledger] : states)
    for (std::uint64_t n = 1; !done(); ++n) {
      const auto disk = state->after_kill();
      disk->skip_syncs(skip_files_, skip_folders_);
      disk->cut_power_at(n);
      JournalLedger second = ledger;
      if (std::string wrong = own(*disk, open_, kOwners.size() - 1, false, second); !wrong.empty())
        violations_.push_back("recovering: " + wrong);
      if (!disk->power_lost()) break;
      look_at_all(*disk, second, kTearSometimes, fmt::format("cut again at change {}", n));
    }
}

}  // namespace train
