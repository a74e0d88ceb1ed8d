// Ranks and ingest workers in one process, and in several.
#include "lib/data/serve/ingest_reader.h"

#include <arrow/array.h>
#include <arrow/compute/initialize.h>
#include <arrow/table.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lib/data/arrow_error.h"
#include "lib/data/read/stop_reading.h"
#include "tests/unit/lib_data/ingest_reader_fixture.h"
#include "tests/unit/lib_data/served_process.h"

namespace train::data {
namespace {

using std::chrono_literals::operator""ms;
using Batches = std::vector<ReadBatch>;

TEST_F(IngestReaderTest, GivesTheBatchesOfThePlanInEachOrder) {
  const auto a = serve("a"), b = serve("b"), c = serve("c");
  const std::vector<OrderSpec> orders{
      {.shuffle = Shuffle::Window, .seed = 5, .lanes = 16, .block_rows = 9},
      {.shuffle = Shuffle::Rows, .seed = 5},
      {.shuffle = Shuffle::Files, .seed = 5, .lanes = 3, .block_rows = 9},
      {.shuffle = Shuffle::None}};
  for (const OrderSpec& order : orders) {
    for (const std::vector<std::string>& names :
         {std::vector<std::string>{"a"}, std::vector<std::string>{"a", "b", "c"}}) {
      set_roster(names);
      become({.batch_sizes = {30, 50}, .rank = 1, .order = order, .rows_consumed = 77});
      IngestReader pass = reader();
      for (std::int64_t step = 0; step < plan_->batches(); ++step) expect_step(pass, step);
    }
  }
  EXPECT_EQ(alone_count_, 0);
  EXPECT_GT(counted_, 0);
  EXPECT_THAT(said_, testing::IsEmpty());
}

TEST_F(IngestReaderTest, GivesTheSameRowsWhileIngestWorkersComeAndGo) {
  std::map<std::string, std::unique_ptr<IngestServer>> servers;
  servers["a"] = serve("a");
  set_roster({"a"});
  IngestReader pass = reader();
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 5) {
      servers["b"] = serve("b");
      servers["c"] = serve("c");
      set_roster({"a", "b", "c"});
    }
    if (step == 15) set_roster({"b", "c"});
    if (step == 20) servers["b"].reset();  // dies, and the roster does not say so yet
    if (step == 25) set_roster({"c"});
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(IngestReaderTest, LetsTheLoopKeepAllBatches) {
  const auto a = serve("a");
  set_roster({"a"});
  pass_.credit_bytes = 1 << 16;  // less than the slot of a batch
  IngestReader pass = reader();
  Batches kept;
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    auto batch = pass.read(step);
    ASSERT_TRUE(batch.has_value());
    kept.push_back(std::move(*batch));
  }
  for (std::size_t step = 0; step < kept.size(); ++step)
    expect_planned(kept[step], static_cast<std::int64_t>(step));
}

TEST_F(IngestReaderTest, LeavesBatchesWholeThatOutliveItAndTheIngestWorker) {
  Batches kept;
  {
    const auto a = serve("a");
    set_roster({"a"});
    IngestReader pass = reader();
    for (std::int64_t step = 0; step < 4; ++step) kept.push_back(*pass.read(step));
  }
  for (std::size_t step = 0; step < kept.size(); ++step)
    expect_planned(kept[step], static_cast<std::int64_t>(step));
}

TEST_F(IngestReaderTest, ReadsForItselfWhileNobodyCanBeAskedAndSaysSoOnce) {
  IngestReader pass =
      reader({.ask_least = std::chrono::hours(1), .alone_after = 0ms, .reconnect_after = 0ms});
  for (std::int64_t step = 0; step < 3; ++step) expect_step(pass, step);
  EXPECT_EQ(alone_count_, 1);
  EXPECT_THAT(said_, testing::ElementsAre(testing::HasSubstr("this rank reads for itself")));

  const auto a = serve("a");
  set_roster({"a"});
  for (std::int64_t step = 3; step < 6; ++step) expect_step(pass, step);

  EXPECT_EQ(alone_count_, 1);
  EXPECT_EQ(a->counts().ranks, 1);
  EXPECT_THAT(said_, testing::ElementsAre(testing::_, "ingest workers are asked again"));
}

TEST_F(IngestReaderTest, WaitsForNobodyWhereThePreviousPassReadForItself) {
  auto used = uses();
  *used.reads_alone = true;
  IngestReader pass(plan_, pass_, used, nullptr, {.alone_after = std::chrono::hours(1)});

  expect_step(pass, 0);

  EXPECT_EQ(alone_count_, 1);
  EXPECT_THAT(said_, testing::IsEmpty());
}

TEST_F(IngestReaderTest, ConnectsToAnIngestWorkerThatListensLater) {
  set_roster({"a"});
  std::unique_ptr<IngestServer> a;
  auto late = uses();
  int tries = 0;
  late.connect = [&](const IngestEndpoint& endpoint) {
    if (++tries == 3) a = serve("a");
    return connect_unix_peer(endpoint.socket);
  };
  IngestReader pass(plan_, pass_, late, nullptr,
                    {.alone_after = std::chrono::hours(1), .reconnect_after = 0ms});

  expect_step(pass, 0);

  EXPECT_EQ(tries, 3);
  EXPECT_THAT(said_, testing::IsEmpty());
}

TEST_F(IngestReaderTest, AsksTheProcessThatHasTakenTheNameOfAnotherOne) {
  auto other_paths = uses();
  std::vector<std::string> reached;
  other_paths.roster = [this] { return roster_; };
  other_paths.connect = [&](const IngestEndpoint& endpoint) {
    reached.push_back(endpoint.socket);
    return connect_unix_peer(endpoint.socket);
  };
  const auto a = serve("a"), b = serve("b");
  set_roster({"a"});
  IngestReader pass(plan_, pass_, other_paths, nullptr, {.alone_after = std::chrono::hours(1)});
  expect_step(pass, 0);
  const std::string first = roster_.endpoints.front().socket;

  set_roster({"b"});
  const std::string second = roster_.endpoints.front().socket;
  roster_.endpoints.front().name = "a";
  for (std::int64_t step = 1; step < 4; ++step) expect_step(pass, step);

  EXPECT_EQ(reached, (std::vector{first, second}));
  EXPECT_EQ(alone_count_, 0);
}

/// Fails at some steps, and else gives the rows as they are.
class FailingParts final : public PartReader {
 public:
  FailingParts(std::unique_ptr<PartReader> inner, std::int64_t step)
      : inner_(std::move(inner)), step_(step) {}
  Result<PartRows> read(std::int64_t step, const AddressSet& addresses) override {
    if (step == step_) return Error{Errc::Corrupt, "row group 3 is damaged"};
    return inner_->read(step, addresses);
  }

 private:
  std::unique_ptr<PartReader> inner_;
  const std::int64_t step_;
};

TEST_F(IngestReaderTest, AsksTheNextOneWhereAPartCannotBeRead) {
  const auto a = serve("a", [this](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
    TRY(auto inner, plain_parts(source_)(pass));
    return std::unique_ptr<PartReader>(std::make_unique<FailingParts>(std::move(inner), 3));
  });
  const auto b = serve("b");
  set_roster({"a", "b"});
  IngestReader pass = reader();

  for (std::int64_t step = 0; step < 6; ++step) expect_step(pass, step);
}

TEST_F(IngestReaderTest, EndsWithTheErrorThatAllOfThemHave) {
  const OpenPart failing = [this](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
    TRY(auto inner, plain_parts(source_)(pass));
    return std::unique_ptr<PartReader>(std::make_unique<FailingParts>(std::move(inner), 3));
  };
  const auto a = serve("a", failing), b = serve("b", failing);
  set_roster({"a", "b"});
  IngestReader pass = reader();

  for (std::int64_t step = 0; step < 3; ++step) expect_step(pass, step);
  const auto failed = pass.read(3);

  ASSERT_TRUE(failed.has_error());
  EXPECT_EQ(failed.error(), (Error{Errc::Corrupt, "row group 3 is damaged"}));
}

TEST_F(IngestReaderTest, AsksNobodyWhoseFilesAreOthers) {
  write_parquet(folder_ / "other/1.parquet", numbered_rows(0, 10), 5);
  std::shared_ptr<const RowSource> other = std::move(*open_files({.paths = {folder_ / "other"}}));
  const auto a = serve("a", plain_parts(other)), b = serve("b");
  set_roster({"a", "b"});
  IngestReader pass = reader();

  for (std::int64_t step = 0; step < 6; ++step) expect_step(pass, step);

  EXPECT_THAT(
      said_, testing::ElementsAre(testing::AllOf(testing::HasSubstr("a is not asked"),
                                                 testing::HasSubstr("are not those of the rank"))));
}

/// Says of each row whose id can be divided by 7 that it is bad, as a map would.
class PartsWithBadRows final : public PartReader {
 public:
  explicit PartsWithBadRows(std::unique_ptr<LaneReader> reader) : reader_(std::move(reader)) {}
  Result<PartRows> read(std::int64_t step, const AddressSet& addresses) override {
    TRY(auto batch, reader_->read(step, addresses));
    const auto ids = ids_of(*batch.rows);
    PartRows part;
    arrow::RecordBatchVector good;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      const auto at = static_cast<std::int64_t>(row);
      if (ids[row] % 7 == 0) {
        part.bad.push_back({at, {Errc::Corrupt, "bad"}});
        part.lost.push_back(at);
      } else {
        good.push_back(batch.rows->Slice(at, 1));
      }
    }
    for (const std::int64_t row : part.lost) good.push_back(batch.rows->Slice(row, 1));
    ARROW_TRY(part.rows, "joining", arrow::ConcatenateRecordBatches(good));
    return part;
  }

 private:
  std::unique_ptr<LaneReader> reader_;
};

TEST_F(IngestReaderTest, LeavesBadRowsOutAndFillsTheBatchWithRepeats) {
  const OpenPart open = [this](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
    TRY(auto reader, LaneReader::make(source_, layout_, pass));
    return std::unique_ptr<PartReader>(std::make_unique<PartsWithBadRows>(std::move(reader)));
  };
  const auto a = serve("a", open), b = serve("b", open);
  set_roster({"a", "b"});
  IngestReader pass = reader();
  for (std::int64_t step = 0; step < 10; ++step) {
    std::vector<std::int64_t> good;
    for (const std::int64_t id : ids_of(*(*alone()->read(step)).rows))
      if (id % 7 != 0) good.push_back(id);
    const std::size_t valid = good.size();
    while (good.size() < 32) good.push_back(good[good.size() - valid]);

    const ReadBatch batch = *pass.read(step);

    EXPECT_EQ(ids_of(*batch.rows), good);
    EXPECT_EQ(batch.valid_rows, static_cast<std::int64_t>(valid));
  }
  EXPECT_FALSE(left_out_.empty());
}

/// A peer that answers as the test says.
class FakePeer final : public IngestPeer {
 public:
  using Reply = std::function<Result<PartRows>(const Ask&)>;
  explicit FakePeer(Reply reply) : reply_(std::move(reply)) { EXPECT_EQ(::pipe(ends_), 0); }
  ~FakePeer() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int descriptor() const override { return ends_[0]; }
  bool wants_to_write() const override { return false; }
  Result<Unit> open(const OpenPass&) override { return Unit{}; }
  Result<Unit> ask(const Ask& ask) override {
    answers_.push_back({ask.sequence, reply_(ask)});
    return Unit{};
  }
  Result<Unit> exchange(std::vector<PartAnswer>& answers) override {
    for (PartAnswer& answer : answers_) answers.push_back(std::move(answer));
    answers_.clear();
    return Unit{};
  }

 private:
  int ends_[2] = {-1, -1};
  const Reply reply_;
  std::vector<PartAnswer> answers_;
};

TEST_F(IngestReaderTest, TakesNoAnswerWithOtherRowsThanItAskedFor) {
  const auto b = serve("b");
  set_roster({"a", "b"});
  auto used = uses();
  used.connect = [](const IngestEndpoint& endpoint) -> Result<std::unique_ptr<IngestPeer>> {
    if (endpoint.name == "b") return connect_unix_peer(endpoint.socket);
    return std::unique_ptr<IngestPeer>(std::make_unique<FakePeer>([](const Ask& ask) {
      PartRows part{.rows = must(numbered_rows(0, 1)->CombineChunksToBatch())};
      if (ask.sequence % 2 == 0) part.lost.push_back(7);
      return Result<PartRows>(std::move(part));
    }));
  };
  IngestReader pass(plan_, pass_, used, nullptr, {.alone_after = std::chrono::hours(1)});

  for (std::int64_t step = 0; step < 6; ++step) expect_step(pass, step);
}

/// Waits for the test before it reads.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  }
  void let_through() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

class GatedParts final : public PartReader {
 public:
  GatedParts(std::unique_ptr<PartReader> inner, Gate& gate)
      : inner_(std::move(inner)), gate_(gate) {}
  Result<PartRows> read(std::int64_t step, const AddressSet& addresses) override {
    gate_.wait();
    return inner_->read(step, addresses);
  }

 private:
  std::unique_ptr<PartReader> inner_;
  Gate& gate_;
};

TEST_F(IngestReaderTest, AsksAnotherOneWhereAnAnswerIsOverdueAndDropsTheLateAnswer) {
  Gate gate;
  const auto a = serve("a", [&](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
    TRY(auto inner, plain_parts(source_)(pass));
    return std::unique_ptr<PartReader>(std::make_unique<GatedParts>(std::move(inner), gate));
  });
  const auto b = serve("b");
  set_roster({"a", "b"});
  IngestReader pass = reader({.ask_least = 5ms, .alone_after = std::chrono::hours(1)});

  for (std::int64_t step = 0; step < 10; ++step) expect_step(pass, step);
  gate.let_through();
  for (std::int64_t step = 10; step < plan_->batches(); ++step) expect_step(pass, step);

  EXPECT_EQ(alone_count_, 0);
}

TEST_F(IngestReaderTest, TakesTheAnswerOfTheSlowOneIfNobodyElseIsThere) {
  Gate gate;
  const auto a = serve("a", [&](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
    TRY(auto inner, plain_parts(source_)(pass));
    return std::unique_ptr<PartReader>(std::make_unique<GatedParts>(std::move(inner), gate));
  });
  set_roster({"a"});
  auto used = uses();
  int looked = 0;
  used.roster = [&] {
    if (++looked == 5) gate.let_through();  // long after its deadline
    return roster_;
  };
  IngestReader pass(plan_, pass_, used, nullptr,
                    {.ask_least = 0ms, .alone_after = std::chrono::hours(1)});

  for (std::int64_t step = 0; step < 5; ++step) expect_step(pass, step);

  EXPECT_EQ(alone_count_, 0);
}

/// Asks an ingest worker, but ends when it is asked for rows of some units: as a process does in
/// which a map crashes.
class CrashingPeer final : public IngestPeer {
 public:
  using IsDeadly = std::function<bool(const Ask&)>;
  CrashingPeer(std::unique_ptr<IngestPeer> inner, IsDeadly is_deadly)
      : inner_(std::move(inner)), is_deadly_(std::move(is_deadly)) {}
  int descriptor() const override { return inner_->descriptor(); }
  bool wants_to_write() const override { return inner_->wants_to_write(); }
  Result<Unit> open(const OpenPass& pass) override { return inner_->open(pass); }
  Result<Unit> ask(const Ask& ask) override {
    if (ended_ || is_deadly_(ask)) {
      ended_ = true;  // it answers those before
      return Unit{};
    }
    ++waiting_;
    return inner_->ask(ask);
  }
  Result<Unit> exchange(std::vector<PartAnswer>& answers) override {
    TRY_VOID(inner_->exchange(answers));
    waiting_ -= std::ssize(answers);
    if (ended_ && waiting_ == 0) return Error{Errc::Unavailable, "it has ended"};
    return Unit{};
  }

 private:
  std::unique_ptr<IngestPeer> inner_;
  const IsDeadly is_deadly_;
  std::ptrdiff_t waiting_ = 0;
  bool ended_ = false;
};

class DeadlyRowsTest : public IngestReaderTest {
 protected:
  void SetUp() override {
    IngestReaderTest::SetUp();
    for (const std::string name : {"a", "b", "c", "d"}) servers_.push_back(serve(name));
    set_roster({"a", "b", "c", "d"});
  }
  /// Return the units of the rows that are asked for.
  std::set<std::int64_t> units_of(std::int64_t step, const AddressSet& addresses) {
    LanePlan plan(*plan_);
    const std::size_t set = plan.add(addresses);
    std::set<std::int64_t> units;
    for (const RowRange& range : plan.batch(*plan.index_of(set, step)).ranges)
      units.insert(range.unit);
    return units;
  }
  /// Read with ingest workers that end at these units.
  IngestReader::Uses ending_at(std::set<std::int64_t> units) {
    auto used = uses();
    used.connect = [this,
                    units](const IngestEndpoint& endpoint) -> Result<std::unique_ptr<IngestPeer>> {
      TRY(auto peer, connect_unix_peer(endpoint.socket));
      return std::unique_ptr<IngestPeer>(
          std::make_unique<CrashingPeer>(std::move(peer), [this, units](const Ask& ask) {
            const auto asked = units_of(ask.step, ask.addresses);
            const bool deadly = std::any_of(asked.begin(), asked.end(), [&](std::int64_t unit) {
              return units.contains(unit);
            });
            crashes_ += deadly ? 1 : 0;
            return deadly;
          }));
    };
    return used;
  }
  /// A unit of which the first step has rows.
  std::int64_t some_unit() const { return plan_->batch(0).ranges.front().unit; }

  std::vector<std::unique_ptr<IngestServer>> servers_;
  int crashes_ = 0;
  const IngestReader::Limits kLimits{.alone_after = std::chrono::hours(1), .reconnect_after = 0ms};
};

TEST_F(DeadlyRowsTest, EndThePassWithTheNameOfTheirUnit) {
  const std::int64_t unit = some_unit();
  auto used = ending_at({unit});
  std::vector<std::int64_t> named;
  used.leave_out = [&](std::int64_t of, std::int64_t, Error why) -> Result<Unit> {
    named.push_back(of);
    return why;
  };
  IngestReader pass(plan_, pass_, used, nullptr, kLimits);

  const auto failed = pass.read(0);

  ASSERT_TRUE(failed.has_error());
  const std::string& message = failed.error().message;
  EXPECT_THAT(message, testing::StartsWith("3 ingest workers have ended while they read it"));
  ASSERT_EQ(named.size(), 1u);
  if (named.front() != unit)  // its rows and those of another unit came together
    EXPECT_THAT(message, testing::HasSubstr(", or unit " + std::to_string(unit) + ", row "));
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(DeadlyRowsTest, AreLeftOutWithTheirUnitWhereBadRowsAre) {
  const std::int64_t unit = some_unit();
  auto used = ending_at({unit});
  std::set<std::pair<std::int64_t, std::int64_t>> left_out;
  used.leave_out = [&](std::int64_t of, std::int64_t row, Error) {
    left_out.emplace(of, row);
    return Result<Unit>(Unit{});
  };
  IngestReader pass(plan_, pass_, used, nullptr, kLimits);
  std::set<std::int64_t> seen;
  std::int64_t valid = 0;
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    auto batch = pass.read(step);
    ASSERT_TRUE(batch.has_value()) << batch.error().describe();
    EXPECT_EQ(batch->rows->num_rows(), alone()->read(step)->rows->num_rows());
    const auto ids =
        std::static_pointer_cast<arrow::Int64Array>(batch->rows->GetColumnByName("id"));
    for (std::int64_t row = 0; row < batch->valid_rows; ++row) seen.insert(ids->Value(row));
    valid += batch->valid_rows;
  }
  std::int64_t planned = 0, of_unit = 0;
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    planned += plan_->batch(step).valid_rows;
    for (const RowRange& range : plan_->batch(step).ranges)
      if (range.unit == unit) of_unit += range.count;
  }
  EXPECT_EQ(std::ssize(seen), valid);  // each once
  EXPECT_EQ(valid, planned - std::ssize(left_out));
  // All rows of the unit, and no more than those that share a lane and a step with them.
  EXPECT_GE(std::ssize(left_out), of_unit);
  EXPECT_LE(std::ssize(left_out), 2 * of_unit);
  EXPECT_EQ(*used.deadly_units, (std::set<std::int64_t>{unit}));
  // Once it is known, nobody is asked for it.
  EXPECT_GE(crashes_, 3);
  EXPECT_LE(crashes_, 20);
}

TEST_F(DeadlyRowsTest, AreNotThoseOfIngestWorkersThatLeaveTheRoster) {
  IngestReader pass(plan_, pass_, uses(), nullptr, kLimits);
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    set_roster(step % 2 == 0 ? std::vector<std::string>{"a", "b"}
                             : std::vector<std::string>{"c", "d"});
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(IngestReaderTest, SurvivesAPeerThatSendsNonsense) {
  const FileDescriptor listening = *listen_at(socket_of("a"));
  std::thread liar([&] {
    FileDescriptor socket;
    while (socket.get() < 0) {
      auto accepted = accept_peer(listening.get());
      if (accepted) socket = std::move(*accepted);
    }
    // An answer that names a slot without its memory.
    const std::string frame = frame_of(Answer{.sequence = 1, .slot = 3, .new_slot = true});
    EXPECT_EQ(::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
    char bytes[256];  // the connection stays open until the rank closes it
    do {
      pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, -1);
    } while (::recv(socket.get(), bytes, sizeof bytes, 0) > 0);
  });
  const auto b = serve("b");
  set_roster({"a", "b"});
  {
    IngestReader pass = reader({.ask_least = std::chrono::hours(1),
                                .alone_after = std::chrono::hours(1),
                                .reconnect_after = std::chrono::hours(1)});
    for (std::int64_t step = 0; step < 6; ++step) expect_step(pass, step);
  }
  liar.join();
  EXPECT_THAT(said_, testing::ElementsAre(testing::HasSubstr("a is not asked any longer")));
}

TEST_F(IngestReaderTest, StopsWhenThePassIsOver) {
  const std::atomic<bool> stopped = true;
  const StopReading stop(stopped);
  IngestReader pass = reader();

  EXPECT_EQ(pass.read(0).error().code, Errc::Cancelled);
}

TEST_F(IngestReaderTest, IsRefusedByAServerWithAFolderThatOthersMayEnter) {
  ::chmod(folder_.path().c_str(), 0755);

  const auto started =
      IngestServer::start(socket_of("a"), plain_parts(source_), [](const std::string&) {});

  EXPECT_EQ(started.error().code, Errc::Permission);
}

TEST_F(IngestReaderTest, GivesTheSameRowsWhileIngestWorkersAreKilled) {
  const ServedProcess a(socket_of("a"), folder_ / "data"), b(socket_of("b"), folder_ / "data"),
      c(socket_of("c"), folder_ / "data");
  set_roster({"a", "b", "c"});
  IngestReader pass = reader();
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 10) a.send(SIGKILL);
    if (step == 20) b.send(SIGKILL);
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(IngestReaderTest, GivesTheSameRowsWhileAnIngestWorkerIsStopped) {
  const ServedProcess a(socket_of("a"), folder_ / "data"), b(socket_of("b"), folder_ / "data");
  set_roster({"a", "b"});
  IngestReader pass = reader({.ask_least = 20ms, .alone_after = std::chrono::hours(1)});
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 10) a.send(SIGSTOP);
    if (step == plan_->batches() - 5) a.send(SIGCONT);  // its late answers are dropped
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(IngestReaderTest, ReadsForItselfWhenAllAreKilled) {
  const ServedProcess a(socket_of("a"), folder_ / "data"), b(socket_of("b"), folder_ / "data");
  set_roster({"a", "b"});
  IngestReader pass = reader({.alone_after = 1ms, .reconnect_after = 0ms});
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 10) {
      a.send(SIGKILL);
      b.send(SIGKILL);
    }
    expect_step(pass, step);
  }
  EXPECT_GE(alone_count_, 1);
}

TEST(AskTimes, GiveThreeTimesWhatNearlyAllAnswersTake) {
  AskTimes times;
  EXPECT_EQ(times.deadline(), std::chrono::seconds(1));
  for (int i = 0; i < 99; ++i) times.add(700ms);
  times.add(std::chrono::seconds(50));
  EXPECT_EQ(times.deadline(), 2100ms);
}

TEST(AskTimes, StayWithinTheirLimits) {
  AskTimes fast, slow;
  for (int i = 0; i < 1000; ++i) {
    fast.add(1ms);
    slow.add(std::chrono::hours(1));
  }
  EXPECT_EQ(fast.deadline(), AskTimes::kLeast);
  EXPECT_EQ(slow.deadline(), AskTimes::kMost);
}

}  // namespace
}  // namespace train::data
