// The files that `traind certs` makes. Nothing is ever overwritten; where one cannot be written,
// those written before it are removed again.
#pragma once

#include <ctime>
#include <string>

#include "lib/base/result.h"
#include "lib/net/certificate.h"

namespace train {

inline constexpr int kAuthorityDays = 3650, kCertificateDays = 365;

/// A new authority: ca.crt and ca.key in `folder`, which is made (mode 0700) where there is none.
Result<Unit> create_authority(const std::string& folder, const std::string& cluster,
                              std::time_t now);

/// ca.crt, tls.crt and tls.key in `folder`, signed by the authority in `authority_folder`, for
/// `days` or as long as the authority itself; an hour ago already, for clocks that are late. Until
/// when.
Result<std::time_t> create_certificate(const std::string& authority_folder, CertificateRole role,
                                       const std::string& name, const std::string& folder, int days,
                                       std::time_t now);

}  // namespace train
