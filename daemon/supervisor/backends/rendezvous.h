// The rendezvous of Horovod's Gloo controller: values that ranks PUT below /scope/key, and GET
// until they are there. With DELETE a rank says that it is done with a scope; as in Horovod's own
// server, that removes nothing. It runs beside rank 0 for as long as its attempt does. Whoever
// reaches its port may use it, as the other ports of a group; what it keeps has limits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lib/http/server.h"

namespace train {

class RendezvousValues {
 public:
  static constexpr std::size_t kBytesMax = 16u << 20;  // of all keys and values
  static constexpr std::size_t kEntryBytes = 256;      // counted for each, whatever its size

  /// Answer a request. Pure.
  HttpResponse answer(const HttpRequest& request);

 private:
  std::map<std::string, std::string> values_;  // "scope/key" → value
  std::size_t bytes_ = 0;
};

/// Listen on the port, on all addresses if `address` is empty.
Result<std::unique_ptr<HttpServer>> open_rendezvous(asio::any_io_executor executor,
                                                    const std::string& address, std::uint16_t port);

}  // namespace train
