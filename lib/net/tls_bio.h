// This file connects OpenSSL to our socket. OpenSSL's own BIO_s_socket writes without MSG_NOSIGNAL,
// so a write to a peer that is gone would end the process with SIGPIPE (openssl#16399).
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <string>

namespace train {

struct TlsSocket {
  int fd = -1;
  std::string first_bytes;        // precede the bytes in the socket
  std::size_t bytes_allowed = 0;  // how many may still be read
  int error_number = 0;           // of the last call, if it failed for good
  bool ended = false;             // the peer has closed its side
};

inline constexpr std::size_t kAnyNumberOfBytes = static_cast<std::size_t>(-1);

/// Make a BIO over `socket`, which must outlive it. Never null.
BIO* make_socket_bio(TlsSocket& socket);

}  // namespace train
