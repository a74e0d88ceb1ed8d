// The certificate of a Flight server, which its ranks trust and no other. It is made when the
// server starts, and never leaves memory.
#pragma once

#include <ctime>
#include <string>

#include "lib/base/result.h"

namespace train::data {

struct ServerCertificate {
  std::string certificate, key;  // PEM
};

/// Make a self-signed certificate (ECDSA on P-256) for a host of this name.
Result<ServerCertificate> make_server_certificate(const char* host, std::time_t now);

/// Return `bytes` random bytes as hex digits.
Result<std::string> random_token(std::size_t bytes);

}  // namespace train::data
