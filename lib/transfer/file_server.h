// A FileServer answers ReadFile: it reads pieces of files on its own thread. Its owner determines
// the folder that a request may read in; open_beneath ensures that nothing outside of it is read.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/user_account.h"
#include "lib/wire/attempt_messages.h"

namespace train {

inline constexpr std::size_t kServedBytesMax = 1u << 20;  // in one answer, whatever was requested
// Waiting requests; more are dropped, and the peer repeats them.
inline constexpr int kRequestsMax = 1 << 16;

class FileServer {
 public:
  using Reply = std::function<void(const FileBytes&)>;

  /// Replies are called on `executor`, which must outlive the server. The server reads files with
  /// the rights of `account`, or with ours if there is none.
  explicit FileServer(boost::asio::any_io_executor executor,
                      std::optional<UserAccount> account = {})
      : executor_(executor), account_(std::move(account)) {}
  ~FileServer() { pool_.stop(), pool_.join(); }

  /// Read a piece of the file `relative` below `base`, and reply.
  void serve(std::string base, std::string relative, const ReadFile& request, Reply reply);
  /// Return an answer with the reason why the file was not read.
  static FileBytes refusal(const ReadFile& request, const Error& error);

 private:
  boost::asio::any_io_executor executor_;
  const std::optional<UserAccount> account_;
  int waiting_ = 0;
  boost::asio::thread_pool pool_{1};  // one thread, in the order of the requests
};

}  // namespace train
