// Serves rows to the ranks on this node: a thread for each connection reads what the rank asks for
// and puts it into slots (slots.h). It does not know how rows are made: who starts it says that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/data/serve/part_reader.h"
#include "lib/data/serve/unix_channel.h"

namespace train::data {

class IngestServer {
 public:
  struct Counts {
    std::int64_t rows = 0;   // handed over since the start
    std::int64_t bytes = 0;  // of these
    int ranks = 0;           // connected now
  };

  static constexpr int kRanksMax = 4096;

  /// Takes a line for the user.
  using Say = std::function<void(const std::string& line)>;

  /// Listen at `path` (listen_at()), and serve. `open` and `say` are called on the connections'
  /// threads.
  static Result<std::unique_ptr<IngestServer>> start(const std::string& path, OpenPart open,
                                                     Say say);
  /// Close all connections. Waits for the parts that are being read.
  ~IngestServer();
  IngestServer(const IngestServer&) = delete;
  IngestServer& operator=(const IngestServer&) = delete;

  Counts counts() const;

 private:
  class Connection;
  struct Served {
    std::unique_ptr<Connection> connection;
    std::thread thread;
    std::atomic<bool> over = false;
  };
  IngestServer(std::string path, FileDescriptor listening, OpenPart open, Say say);
  void accept_ranks();
  void serve(FileDescriptor socket);
  void join_those_that_are_over();

  const std::string path_;
  const FileDescriptor listening_;
  const OpenPart open_;
  const Say say_;
  FileDescriptor stop_read_, stop_write_;  // a pipe: its end wakes all threads
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> rows_ = 0, bytes_ = 0;
  std::atomic<int> ranks_ = 0;
  std::list<Served> served_;  // only the accepting thread uses it, and the destructor after it
  std::thread thread_;
};

}  // namespace train::data
