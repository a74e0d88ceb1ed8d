#include "daemon/supervisor/backends/rendezvous.h"

#include <utility>

namespace train {
namespace {

constexpr std::size_t kConnectionsMax = 1024;

HttpResponse text_answer(int status, std::string text) {
  return {status, "application/octet-stream", std::move(text), {}};
}

}  // namespace

HttpResponse RendezvousValues::answer(const HttpRequest& request) {
  const auto& path = request.target.path;
  if (path.size() != 2) return text_answer(404, "there is only /scope/key\n");
  const std::string name = path[0] + "/" + path[1];
  const auto found = values_.find(name);
  const std::size_t own = kEntryBytes + name.size();
  const std::size_t before = found == values_.end() ? 0 : own + found->second.size();
  switch (request.method) {
    case HttpMethod::Get:
    case HttpMethod::Head:
      return found == values_.end() ? text_answer(404, "") : text_answer(200, found->second);
    case HttpMethod::Put: {
      const std::size_t after = bytes_ - before + own + request.body.size();
      if (after > kBytesMax) return text_answer(413, "the rendezvous is full\n");
      bytes_ = after;
      values_[name] = request.body;
      return text_answer(200, "");
    }
    case HttpMethod::Delete:
      return text_answer(200, "");  // this rank is done with it; others may not be
    default:
      return text_answer(405, "use GET, PUT or DELETE\n");
  }
}

Result<std::unique_ptr<HttpServer>> open_rendezvous(asio::any_io_executor executor,
                                                    const std::string& address,
                                                    std::uint16_t port) {
  HttpServer::Options options;
  options.endpoint = Endpoint::tcp(address, port);
  options.limits.connections = kConnectionsMax;
  const auto values = std::make_shared<RendezvousValues>();
  HttpHandler handler = [values](HttpRequest request) -> asio::awaitable<HttpAnswer> {
    HttpAnswer answer;
    answer.response = values->answer(request);
    co_return answer;
  };
  return HttpServer::listen(std::move(executor), options, std::move(handler));
}

}  // namespace train
