#include "lib/data/flight/flight_server.h"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/flight/server_middleware.h>
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <system_error>
#include <thread>

#include "lib/base/thread.h"
#include "lib/data/arrow_error.h"
#include "lib/data/flight/flight_rank_channel.h"
#include "lib/data/flight/flight_terms.h"
#include "lib/data/flight/server_certificate.h"
#include "lib/data/serve/ingest_server.h"

namespace train::data {
namespace {

namespace flight = arrow::flight;

constexpr std::size_t kTokenBytes = 32;

/// Compare without telling by the time how much is equal.
bool equal(std::string_view given, std::string_view token) {
  unsigned char differs = given.size() == token.size() ? 0 : 1;
  for (std::size_t at = 0; at < given.size(); ++at)
    differs |= static_cast<unsigned char>(given[at] ^ token[at % token.size()]);
  return differs == 0;
}

/// Refuses whoever has not the token, before anything of its message is looked at.
class TokenCheck final : public flight::ServerMiddlewareFactory {
 public:
  explicit TokenCheck(std::string token) : token_(std::move(token)) {}
  arrow::Status StartCall(const flight::CallInfo&, const flight::ServerCallContext& context,
                          std::shared_ptr<flight::ServerMiddleware>*) override {
    const auto [first, last] = context.incoming_headers().equal_range(kFlightHeader);
    if (first != last && std::next(first) == last && first->second.starts_with(kFlightScheme) &&
        equal(first->second.substr(kFlightScheme.size()), token_))
      return arrow::Status::OK();
    return flight::MakeFlightError(flight::FlightStatusCode::Unauthenticated,
                                   "this is no rank of the attempt");
  }

 private:
  const std::string token_;
};

class Server final : public FlightServer, private flight::FlightServerBase {
 public:
  static Result<std::unique_ptr<FlightServer>> start(const FlightServing& serving) {
    TRY(const auto location, flight_location(serving.host, 0, serving.tls));
    auto server = std::unique_ptr<Server>(new Server(serving));
    flight::FlightServerOptions options(location);
    if (serving.tls) {
      TRY(const ServerCertificate made,
          make_server_certificate(kFlightHostName, std::time(nullptr)));
      server->access_.certificate = made.certificate;
      options.tls_certificates.push_back({made.certificate, made.key});
    }
    TRY(server->access_.token, random_token(kTokenBytes));
    options.middleware.emplace_back("token", std::make_shared<TokenCheck>(server->access_.token));
    if (const auto listens = server->Init(options); !listens.ok())
      return Error{Errc::Io, error_from(listens, "listening on " + serving.host).message};
    server->listens_ = true;
    const bool v6 = serving.host.find(':') != std::string::npos;
    server->access_.address =
        fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), serving.host, server->port());
    return std::unique_ptr<FlightServer>(std::move(server));
  }
  ~Server() override {
    if (!listens_) return;
    // Cancels all calls, and waits for them.
    const auto now = std::chrono::system_clock::now();
    (void)Shutdown(&now);
    (void)Wait();
  }
  const FlightAccess& access() const override { return access_; }

 private:
  explicit Server(const FlightServing& serving) : serve_(serving.serve) {}

  arrow::Status DoExchange(const flight::ServerCallContext&,
                           std::unique_ptr<flight::FlightMessageReader> reader,
                           std::unique_ptr<flight::FlightMessageWriter> writer) override {
    const auto& descriptor = reader->descriptor();
    if (descriptor.type != flight::FlightDescriptor::CMD || descriptor.cmd != kFlightCommand)
      return arrow::Status::Invalid("an ingest worker knows no such call");
    const Counted counted(ranks_);
    if (ranks_ > IngestServer::kRanksMax)
      return flight::MakeFlightError(flight::FlightStatusCode::Unavailable, "too many ranks");
    auto channel = FlightRankChannel::make(*writer);
    if (channel.has_error()) return status_from(channel.error());
    if (auto greeted = (*channel)->greet(); greeted.has_error())
      return status_from(greeted.error());
    std::thread serving;
    try {
      serving = start_thread("trainrun-ingest", [&] {
        serve_(**channel);
        (*channel)->leave();
      });
    } catch (const std::system_error& error) {
      return arrow::Status::IOError("no thread for a rank: ", error.what());
    }
    Error why = take_messages(*reader, **channel);
    (*channel)->end(why);
    serving.join();
    return why.code == Errc::Unavailable ? arrow::Status::OK() : status_from(why);
  }

  /// Pass on what the rank sends, until it leaves. Return why that ended.
  static Error take_messages(flight::FlightMessageReader& reader, FlightRankChannel& channel) {
    while (true) {
      auto next = reader.Next();
      if (!next.ok())
        return {Errc::Unavailable, error_from(next.status(), "reading from a rank").message};
      if (!next->data && !next->app_metadata) return {Errc::Unavailable, "the rank has left"};
      if (next->data || !next->app_metadata) return {Errc::Protocol, "a rank sends rows"};
      if (auto taken = channel.take(std::string_view(*next->app_metadata)); taken.has_error())
        return std::move(taken).error();
    }
  }

  struct Counted {
    explicit Counted(std::atomic<int>& counter) : count(counter) { ++count; }
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    std::atomic<int>& count;
  };

  const std::function<void(RankChannel&)> serve_;
  FlightAccess access_;
  bool listens_ = false;
  std::atomic<int> ranks_ = 0;
};

}  // namespace

Result<std::unique_ptr<FlightServer>> serve_flight(const FlightServing& serving) {
  return Server::start(serving);
}

}  // namespace train::data
