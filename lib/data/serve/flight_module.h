// Ranks and ingest workers on different nodes talk over Arrow Flight: libtrainrun_flight.so, which
// a program loads when it needs it (lib/data/flight). What ranks must know of an ingest worker
// (FlightAccess) comes through the control plane, whose links nobody else can read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/data/serve/ingest_peer.h"
#include "lib/data/serve/rank_channel.h"

namespace train::data {

/// How a rank reaches an ingest worker's Flight server, which makes its own token and certificate.
struct FlightAccess {
  std::string address = {};  // host:port
  std::string token = {};    // whoever calls must have it
  std::string certificate =
      {};  // PEM: what the server presents, and nobody else can; empty: no TLS
  bool operator==(const FlightAccess&) const = default;
};
/// Return it as the text that the control plane passes on, or read that text. InvalidArgument if it
/// is none.
std::string text_of(const FlightAccess& access);
Result<FlightAccess> read_flight_access(const std::string& text);

/// Rows of one answer. More than Flight carries in one message.
inline constexpr std::int64_t kFlightAnswerBytesMax = std::int64_t{1} << 30;

struct FlightServing {
  std::string host;  // the address to listen on: numeric
  /// With a certificate that is made for this server. Only a server on a loopback address may be
  /// without one.
  bool tls = true;
  /// Serves one rank until it leaves (IngestServer::serve_rank()); called on a thread for each.
  std::function<void(RankChannel&)> serve;
};

/// Serves ranks until it is destroyed, which ends their channels and waits for serve().
class FlightServer {
 public:
  virtual ~FlightServer() = default;
  virtual const FlightAccess& access() const = 0;
};

/// Listen and serve. The first call loads the module.
Result<std::unique_ptr<FlightServer>> start_flight_server(const FlightServing& serving);
/// Connect to an ingest worker on another node, which goes on after the call. Its answers are
/// copies. Without a certificate, only to a loopback address.
Result<std::unique_ptr<IngestPeer>> connect_flight_peer(const FlightAccess& access);

// What the module exports. A user's program may meet the module of another version of trainrun:
// count the names up with each change of these functions' types, or of a type that they use.
inline constexpr const char* kFlightServeEntry = "trainrun_flight_serve_1";
using ServeFlight = void (*)(const FlightServing& serving,
                             Result<std::unique_ptr<FlightServer>>* server);
inline constexpr const char* kFlightConnectEntry = "trainrun_flight_connect_1";
using ConnectFlight = void (*)(const FlightAccess& access,
                               Result<std::unique_ptr<IngestPeer>>* peer);

}  // namespace train::data
