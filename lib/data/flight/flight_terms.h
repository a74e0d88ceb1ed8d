// What both ends of a Flight call agree on. Each frame of lib/data/serve/messages.h is the
// application's metadata of one message; that of an Answer comes with the rows. The ingest worker
// begins with a Pong, and answers each Ping with one.
#pragma once

#include <arrow/flight/types.h>

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace train::data {

inline constexpr std::string_view kFlightCommand = "trainrun-ingest-1";  // what the call is for
inline constexpr const char* kFlightHeader = "authorization";
inline constexpr std::string_view kFlightScheme = "Bearer ";
/// The only name in the certificate of a Flight server. Whoever calls trusts that certificate and
/// nothing else, so the name says nothing.
inline constexpr const char* kFlightHostName = "trainrun-ingest";

/// Return where a server listens. InvalidArgument if it is no numeric address, or if it can be
/// reached from other machines, and there is no TLS.
Result<arrow::flight::Location> flight_location(const std::string& host, int port, bool tls);
/// The same, from "host:port" and "[host]:port".
Result<arrow::flight::Location> flight_location(std::string_view address, bool tls);

}  // namespace train::data
