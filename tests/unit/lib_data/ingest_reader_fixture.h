// Ranks and ingest workers of tests: a dataset of two files, and readers of its passes.
#pragma once

#include <arrow/compute/initialize.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/data/arrow_error.h"
#include "lib/data/serve/flight_module.h"
#include "lib/data/serve/ingest_reader.h"
#include "tests/unit/lib_data/numbers_server.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {

class IngestReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    must(arrow::compute::Initialize());
    ::chmod(folder_.path().c_str(), 0700);
    write_parquet(folder_ / "data/1.parquet", numbered_rows(0, 1500), 100);
    write_parquet(folder_ / "data/2.parquet", numbered_rows(1500, 1500), 70);
    source_ = std::move(*open_files({.paths = {folder_ / "data"}}));
    layout_ = layout_of_source(*source_);
    become({.batch_sizes = {32, 32},
            .rank = 1,
            .order = {.shuffle = Shuffle::Window, .seed = 5, .lanes = 16, .block_rows = 9}});
  }

  /// Read this pass from now on.
  void become(PlanInput input) {
    input.layout = layout_;
    pass_ = {.dataset = "train",
             .layout = digest_of(layout_),
             .order = input.order,
             .epoch = input.epoch,
             .batch_sizes = input.batch_sizes,
             .rank = input.rank,
             .rows_consumed = input.rows_consumed,
             .drop_last = input.drop_last,
             .credit_bytes = 1 << 20};
    plan_ = std::make_shared<ShardPlan>(*ShardPlan::make(std::move(input)));
  }

  std::string socket_of(const std::string& name) { return folder_ / (name + ".sock"); }

  std::unique_ptr<IngestServer> serve(const std::string& name) {
    return serve(name, plain_parts(source_));
  }
  std::unique_ptr<IngestServer> serve(const std::string& name, OpenPart open) {
    return std::move(
        *IngestServer::start(socket_of(name), std::move(open), [](const std::string&) {}));
  }

  /// Let the roster have these ingest workers.
  void set_roster(const std::vector<std::string>& names) {
    ++roster_.version;
    roster_.endpoints.clear();
    for (const std::string& name : names)
      roster_.endpoints.push_back({.name = name, .dataset = "train", .socket = socket_of(name)});
  }

  /// Let the roster have ingest workers on other nodes.
  void set_flight_roster(const std::map<std::string, FlightAccess>& access) {
    ++roster_.version;
    roster_.endpoints.clear();
    for (const auto& [name, one] : access)
      roster_.endpoints.push_back({.name = name, .dataset = "train", .flight = text_of(one)});
  }

  std::unique_ptr<BatchSource> alone() const {
    return std::make_unique<BatchReader>(source_, plan_);
  }

  IngestReader::Uses uses() {
    return {.roster = [this] { return roster_; },
            .connect =
                [](const IngestEndpoint& endpoint) {
                  if (!endpoint.socket.empty()) return connect_unix_peer(endpoint.socket);
                  auto access = read_flight_access(endpoint.flight);
                  EXPECT_TRUE(access.has_value());
                  return connect_flight_peer(*access);
                },
            .read_alone =
                [this] {
                  ++alone_count_;
                  return alone();
                },
            .leave_out =
                [this](std::int64_t unit, std::int64_t row, Error why) {
                  left_out_.push_back(why.message + " " + std::to_string(unit) + " " +
                                      std::to_string(row));
                  return Result<Unit>(Unit{});
                },
            .count =
                [this](const std::vector<OperatorShare>& shares) {
                  for (const OperatorShare& share : shares) counted_ += share.rows;
                },
            .describe =
                [](std::int64_t unit, std::int64_t row) {
                  return "unit " + std::to_string(unit) + ", row " + std::to_string(row);
                },
            .say = [this](const std::string& line) { said_.push_back(line); }};
  }

  IngestReader reader(IngestReader::Limits limits = {.alone_after = std::chrono::hours(1)}) {
    return IngestReader(plan_, pass_, uses(), nullptr, limits);
  }

  /// Expect that a batch has the rows of the plan, and all of their values.
  void expect_planned(const ReadBatch& batch, std::int64_t step) {
    const ReadBatch planned = *alone()->read(step);
    ASSERT_TRUE(batch.rows->Equals(*planned.rows)) << step;
    EXPECT_EQ(batch.valid_rows, planned.valid_rows);
    EXPECT_EQ(batch.rows_consumed, planned.rows_consumed);
    EXPECT_EQ(batch.weight, planned.weight);
  }
  /// Read a step, and expect the rows of the plan.
  void expect_step(IngestReader& reader, std::int64_t step) {
    auto batch = reader.read(step);
    ASSERT_TRUE(batch.has_value()) << batch.error().describe();
    expect_planned(*batch, step);
  }

  TestFolder folder_;
  std::shared_ptr<const RowSource> source_;
  UnitLayout layout_;
  OpenPass pass_;
  std::shared_ptr<const ShardPlan> plan_;
  IngestRoster roster_;
  int alone_count_ = 0;
  std::int64_t counted_ = 0;
  std::vector<std::string> left_out_;
  std::vector<std::string> said_;
};

}  // namespace train::data
