// What a call on a socket came to that never waits. Between connection.cc and what moves its bytes.
#pragma once

#include <cstddef>

namespace train {

struct IoStep {
  enum Kind {
    Moved,       // `bytes` of them; of a handshake: it is over
    NeedsRead,   // call again once the socket can be read
    NeedsWrite,  // … or written
    Ended,       // the peer has closed its side
    Failed,      // of the system: `error_number`
    Refused,     // TLS: the peer's bytes are not what they have to be; TlsStream::error() says why
  };
  Kind kind = Moved;
  std::size_t bytes = 0;
  int error_number = 0;
};

/// recv() and send() on a non-blocking socket; a peer that is gone raises no SIGPIPE.
IoStep read_socket(int fd, char* out, std::size_t size);
IoStep write_socket(int fd, const char* bytes, std::size_t size);

}  // namespace train
