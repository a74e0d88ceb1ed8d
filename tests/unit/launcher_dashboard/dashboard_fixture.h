// What the tests of readers share: a run's folder with a journal and reports.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/storage/journal_format.h"

namespace train {

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    char name[] = "/tmp/dashboard_test.XXXXXX";
    root_ = ::mkdtemp(name);
    run_ = root_ + "/job";
    std::filesystem::create_directories(run_);
  }
  ~RunFolderTest() override { std::filesystem::remove_all(root_); }

  std::string path(const std::string& name) const { return run_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::app) << text;
  }
  /// Lock the run's folder, as its launcher does.
  FileDescriptor lock() const {
    FileDescriptor file(::open(path(".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
    return file;
  }
  /// Let a name lead elsewhere: a folder, and then a link in its place.
  void replace_by_link(const std::string& name, const std::string& target) const {
    std::filesystem::rename(path(name), path(name) + ".old");
    ASSERT_EQ(::symlink(target.c_str(), path(name).c_str()), 0);
  }
  /// Return the next line of a journal.
  std::string record(const std::string& event) {
    ++seq_;
    return format_record({.seq = seq_,
                          .group = seq_,
                          .generation = Generation{1},
                          .time = "2026-11-26T10:00:00.000000Z",
                          .event = boost::json::parse(event).as_object()})
        .value();
  }
  /// Return a line of a report log.
  static std::string report(int rank, int number, const std::string& metrics) {
    return "{\"rank\":" + std::to_string(rank) +
           ",\"attempt\":0,\"report_seq\":" + std::to_string(number) +
           ",\"time\":\"2026-11-26T10:00:01.000000Z\",\"checkpoint\":false,\"metrics\":" + metrics +
           "}\n";
  }
  /// Write a run of two workers that runs, with two reports of each.
  void write_run() {
    append("events.jsonl",
           record(R"({"event":"generation_taken","run_id":"r","host":"vm","pid":7,"build":"1"})"));
    append("events.jsonl",
           record(R"({"event":"attempt_started","attempt":0,"world_size":2,"restore":null,)"
                  R"("nodes":[{"node":0,"name":"vm","workers":2}]})"));
    append("events.jsonl", record(R"({"event":"state","state":"running","trigger":"all_started",)"
                                  R"("attempt":0,"reason":""})"));
    write("metrics.jsonl", report(0, 1, R"({"loss":0.5})") + report(1, 1, R"({"loss":0.6})") +
                               report(0, 2, R"({"loss":null,"epoch":1})") +
                               report(1, 2, R"({"loss":0.4})"));
  }

  std::string root_, run_;
  std::uint64_t seq_ = 0;
};

}  // namespace train
