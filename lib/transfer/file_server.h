// A FileServer answers ReadFile: it reads pieces of files on a thread of its own. Its owner says
// which folder a request may read in; open_beneath makes sure that nothing outside that folder is
// read.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/user_account.h"
#include "lib/wire/attempt_messages.h"

namespace train {

inline constexpr std::size_t kServedBytesMax = 1u << 20;  // in one answer, whatever was asked for
inline constexpr int kRequestsMax = 1 << 16;  // that wait; more are dropped, and asked again

class FileServer {
 public:
  using Reply = std::function<void(const FileBytes&)>;

  /// Replies are called on `executor`, which must outlive the server. Files are read with the
  /// rights of `account`, or with ours if there is none.
  explicit FileServer(boost::asio::any_io_executor executor,
                      std::optional<UserAccount> account = {})
      : executor_(executor), account_(std::move(account)) {}
  ~FileServer() { pool_.stop(), pool_.join(); }

  /// Read the file `relative` below `base`.
  void serve(std::string base, std::string relative, const ReadFile& request, Reply reply);
  /// Return the answer that says why the file is not read.
  static FileBytes refusal(const ReadFile& request, const Error& error);

 private:
  boost::asio::any_io_executor executor_;
  const std::optional<UserAccount> account_;
  int waiting_ = 0;
  boost::asio::thread_pool pool_{1};  // in the order of asking
};

}  // namespace train
