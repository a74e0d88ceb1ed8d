// The parts that TlsContext and TlsStream share.
#pragma once

#include <array>
#include <cstddef>
#include <ctime>
#include <optional>

#include "lib/net/hmac.h"
#include "lib/net/openssl_handles.h"
#include "lib/net/tls.h"

namespace train {

struct TlsContext::Impl {
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { wipe(psk.data(), psk.size()); }

  Openssl<SSL_CTX> context;
  std::size_t handshake_bytes_max = 0;  // how much to read before the peer is known
  std::array<char, kHmacBytes> psk{};   // of a token
  std::optional<CertificateName> name;  // of our certificate
  std::time_t valid_until = 0;
};

/// Describe what an X509_V_ERR_… means for a certificate ("has expired"), and what to do about it.
Error certificate_error(long x509_error);

}  // namespace train
