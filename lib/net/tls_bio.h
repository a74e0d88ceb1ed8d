// This file connects OpenSSL to our socket. OpenSSL's own BIO_s_socket writes without MSG_NOSIGNAL,
// so a peer that is gone would end the process by SIGPIPE (openssl#16399).
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <string>

namespace train {

struct TlsSocket {
  int fd = -1;
  std::string first_bytes;        // come before what is in the socket
  std::size_t bytes_allowed = 0;  // that may still be read
  int error_number = 0;           // of the last call, where it failed for good
  bool ended = false;             // the peer has closed its side
};

inline constexpr std::size_t kAnyNumberOfBytes = static_cast<std::size_t>(-1);

/// Make a BIO over `socket`, which must outlive it. Never null.
BIO* make_socket_bio(TlsSocket& socket);

}  // namespace train
