// The outcome of one non-blocking call on a socket, shared by connection.cc and the code that moves
// its bytes.
#pragma once

#include <cstddef>

namespace train {

struct IoStep {
  enum Kind {
    Moved,       // `bytes` were moved; or the handshake is complete
    NeedsRead,   // call again once the socket can be read
    NeedsWrite,  // … or written
    Ended,       // the peer has closed its side
    Failed,      // the system call failed: `error_number`
    Refused,     // TLS rejected the peer's bytes; TlsStream::error() tells why
  };
  Kind kind = Moved;
  std::size_t bytes = 0;
  int error_number = 0;
};

/// Call recv() or send() on a non-blocking socket. A peer that is gone raises no SIGPIPE.
IoStep read_socket(int fd, char* out, std::size_t size);
IoStep write_socket(int fd, const char* bytes, std::size_t size);

}  // namespace train
