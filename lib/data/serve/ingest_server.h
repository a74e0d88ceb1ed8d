// Serves rows to the ranks on this node, with a thread for each connection (rank_session.h), and to
// those whose channels somebody else brings: lib/data/flight.
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
#include "lib/data/serve/rank_session.h"
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

  /// Listen at `path` (listen_at()), and serve. `open` and `say` are called on the threads that
  /// serve ranks.
  static Result<std::unique_ptr<IngestServer>> start(const std::string& path, OpenPart open,
                                                     Say say);
  /// Close all connections. Waits for the parts that are being read.
  ~IngestServer();
  IngestServer(const IngestServer&) = delete;
  IngestServer& operator=(const IngestServer&) = delete;

  /// Serve a rank over this channel on this thread until it leaves, or until stop(). Whoever calls
  /// this returns before the server is destroyed.
  void serve_rank(RankChannel& channel);
  /// End serve_rank() on all threads, also where it reads.
  void stop();

  Counts counts() const;

 private:
  struct Served {
    std::unique_ptr<RankChannel> channel;
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
  HandedOver handed_over_;
  std::atomic<int> ranks_ = 0;
  std::list<Served> served_;  // only the accepting thread uses it, and the destructor after it
  std::thread thread_;
};

}  // namespace train::data
