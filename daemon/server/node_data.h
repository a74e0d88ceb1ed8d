// The data that runs leave on this node's disk for their next attempt, if they have no storage that
// all nodes share. Each run has a folder below --data-dir, which carries our mark and is removed
// when the run is over. Anything else below --data-dir is not ours and stays. With --run-as, the
// run folders of each user lie in a folder of that user, where traind reads and removes with only
// that user's rights.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "lib/transfer/file_server.h"

namespace train {

class NodeData {
 public:
  /// Called, from any thread, for each folder that is removed, and for each that cannot be removed.
  using Say = std::function<void(const std::string& what, const std::string& folder)>;

  /// Answers are given on `executor`, which must outlive this object. `account`: the owner of the
  /// folder; none: our own.
  NodeData(boost::asio::any_io_executor executor, std::string folder,
           std::optional<UserAccount> account, Say say)
      : folder_(std::move(folder)),
        account_(std::move(account)),
        say_(std::move(say)),
        files_(executor, account_) {}

  /// Return the folder of the run, without making it. None if the id cannot be the name of a
  /// folder.
  std::optional<std::string> folder_of(const std::string& run_id) const;
  /// Answer a request to read a part of a checkpoint shard that the run keeps here.
  void serve(const std::string& run_id, const ReadFile& request, const FileServer::Reply& reply);
  /// Note that the run is over here, as its launcher has told us. Its folder is removed once no
  /// supervisor of it is left.
  void run_ended(const std::string& run_id) { ended_.insert(run_id); }
  void run_began(const std::string& run_id) { ended_.erase(run_id); }
  /// Remove what ended runs have left, except for those in `living`. The removal itself continues
  /// in the background.
  void remove_leftovers(const std::set<std::string>& living);
  /// Remove another folder of this user, if it carries our mark. Its name is free when this
  /// returns, unless an earlier removal of that name has not ended. When the folder is gone, `then`
  /// is called, from any thread. If that never happens, a later traind must call this again.
  void remove_later(const std::string& folder, std::function<void()> then);
  /// Remove what has not been used for a week, and what an earlier traind was removing.
  void remove_old_leftovers();

 private:
  void remove(const std::string& folder, const std::string& why);

  std::string folder_;
  const std::optional<UserAccount> account_;
  Say say_;
  std::set<std::string> ended_;
  int removals_ = 0;
  boost::asio::thread_pool pool_{1};
  FileServer files_;
};

}  // namespace train
