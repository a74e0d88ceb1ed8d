// This file reads the credentials that a machine uses over TCP from the files that --token-file or
// --tls names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/certificate.h"
#include "lib/net/tls.h"
#include "lib/net/token.h"

namespace train {

/// Returns the credentials for a connection that begins now; the reference stays valid.
using TlsSource = std::function<const std::optional<TlsContext>&()>;

struct TlsPaths {  // at most one is set; none: no TCP
  std::string token_file;
  std::string folder;  // with ca.crt, tls.crt and tls.key, as made by `traind certs`
};

class TlsFiles {
 public:
  /// Read the files. Errors name the file. Permission: others can read a secret, or change whom we
  /// trust. InvalidArgument: the content of a file is wrong, or the certificate is for the other
  /// role.
  static Result<TlsFiles> read(TlsPaths paths, CertificateRole role);

  /// Use a token that is in no file. It never changes.
  static TlsFiles of_token(const Token& token, CertificateRole role);

  /// Return the context, or nothing if there are no files. read_again() changes it in place;
  /// existing connections keep the old one.
  const std::optional<TlsContext>& context() const { return context_; }

  /// Return whether a file has changed since it was read. The caller asks before each connection;
  /// this checks the files at most once per second, and reports each change once.
  bool changed(TimePoint now);
  /// Read the files again. On an error, the previous context stays in use.
  Result<Unit> read_again();

  /// Return the certificate's name ("trainrun://lab/node/n1"), its last day ("2027-11-20"), and a
  /// warning if it expires soon, else "". All are empty without certificates.
  std::string name() const;
  std::string valid_until() const;
  std::string soon_over(std::time_t now) const;

 private:
  TlsFiles(TlsPaths paths, CertificateRole role) : paths_(std::move(paths)), role_(role) {}
  std::vector<std::string> stamps() const;

  TlsPaths paths_;
  CertificateRole role_;
  std::optional<TlsContext> context_;
  std::vector<std::string> stamps_;
  TimePoint looked_at_{};
};

}  // namespace train
