// A FileFetcher fetches files from the other end of a link (ReadFile, FileBytes). It requests many
// pieces at a time, verifies each file by its digest, and syncs it. If the link breaks and another
// one, perhaps to another process, replaces it, the fetcher repeats its open requests, but requests
// nothing that is already on disk. One thread only, except for the disk's work.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/storage/posix_file_system.h"
#include "lib/transfer/incoming_file.h"
#include "lib/transfer/transfer_window.h"
#include "lib/wire/attempt_messages.h"

namespace train {

inline constexpr Duration kAnswerTimeout = seconds(10);  // then the request is repeated

struct FetchRequest {
  std::string folder;  // the other side's name for it
  std::string into;    // the local folder
  std::vector<CheckpointFile> files;
  std::string or_in = {};  // files that this folder already has are not fetched either
  // Polled now and then; if true, the fetch ends with Cancelled.
  std::function<bool()> useless = {};
  bool durable = true;  // false: the files need not survive a power cut
};
struct Fetched {
  std::size_t files = 0;  // how many were missing
  std::uint64_t bytes = 0;
};

class FileFetcher {
 public:
  /// `ask` sends a request; the fetcher repeats it if it is lost. `disk` and `clock` must outlive
  /// the fetcher.
  using Ask = std::function<void(const ReadFile&)>;
  FileFetcher(asio::any_io_executor executor, const Clock& clock, asio::thread_pool& disk, Ask ask);
  ~FileFetcher();
  FileFetcher(const FileFetcher&) = delete;
  FileFetcher& operator=(const FileFetcher&) = delete;

  /// Fetch all files that `into` does not have yet with their size and digest. When it returns, all
  /// files are there, and safe on disk if they are to be `durable`. Corrupt: a file differs at its
  /// source from what it should be; the message names it. Fetches that run at the same time share
  /// the limit on requested bytes.
  Task<Fetched> fetch(FetchRequest request);
  /// Fetch the text of a file whose size is not known; ResourceExhausted above `bytes_max`.
  Task<std::string> fetch_small(std::string folder, std::string path, std::uint64_t bytes_max);

  void received(FileBytes answer);
  /// Return whether this answers an open request.
  bool waits_for(const FileBytes& answer) const { return asked_.count(answer.id) != 0; }
  /// Repeat all open requests, because the link is a new one.
  void ask_again();
  /// Make each fetch call its `useless` now.
  void look_again() { changed_.notify(); }
  /// Stop, because nothing more will arrive: all current and later fetches end with `why`.
  void close(Error why);
  bool idle() const { return flows_.empty(); }

 private:
  struct Flow;
  struct Asked {
    const Flow* flow = nullptr;  // the flow that sent it; null: fetch_small
    ReadFile request;
    TimePoint at;
    std::function<void(FileBytes)> answered;
  };

  Task<Unit> transfer(std::shared_ptr<Flow> flow);
  void ask_more(const std::shared_ptr<Flow>& flow);
  void took(Flow& flow, std::size_t file, std::uint64_t offset, std::size_t bytes,
            FileBytes answer);
  void write_what_came(const std::shared_ptr<Flow>& flow);
  Task<bool> wait();
  void ask(const Flow* flow, ReadFile request, std::function<void(FileBytes)> answered);
  void forget(const Flow& flow);

  asio::any_io_executor executor_;
  const Clock& clock_;
  asio::thread_pool& disk_;
  Ask ask_;
  Notifier changed_;
  PosixFileSystem files_;
  TransferWindow window_;
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t next_id_;
  std::size_t in_use_ = 0;  // bytes requested, and bytes received that are not on disk yet
  TimePoint heard_at_;
  std::optional<Error> closed_;
  std::set<int> flows_;  // the numbers of the current flows
};

}  // namespace train
