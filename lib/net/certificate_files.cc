#include "lib/net/certificate_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "lib/net/secret_file.h"

namespace train {
namespace {

constexpr std::time_t kHour = 3600, kDay = 24 * kHour;
constexpr std::size_t kPemBytesMax = 64u << 10;

struct NewFile {
  std::string name;
  std::string_view bytes;
  mode_t mode;
};

/// Create all of the files, or none.
Result<Unit> create_files(const std::string& folder, const std::vector<NewFile>& files) {
  const bool made = ::mkdir(folder.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return system_error(errno, "making folder " + folder);
  for (auto file = files.begin(); file != files.end(); ++file) {
    auto created = create_secret_file("file", folder + "/" + file->name, file->bytes, file->mode);
    if (created) continue;
    for (auto before = files.begin(); before != file; ++before)
      ::unlink((folder + "/" + before->name).c_str());
    if (made) ::rmdir(folder.c_str());
    Error error = std::move(created).error();
    if (error.code == Errc::AlreadyExists)
      error.hint = "name another --out, or move that folder away";
    return error;
  }
  return Unit{};
}

}  // namespace

Result<Unit> create_authority(const std::string& folder, const std::string& cluster,
                              std::time_t now) {
  TRY(const PemPair authority, make_authority(cluster, {now - kHour, now + kAuthorityDays * kDay}));
  return create_files(folder,
                      {{"ca.key", authority.key, 0600}, {"ca.crt", authority.certificate, 0644}});
}

Result<std::time_t> create_certificate(const std::string& authority_folder, CertificateRole role,
                                       const std::string& name, const std::string& folder, int days,
                                       std::time_t now) {
  TRY_VOID(check_certificate_name(role == CertificateRole::Node ? "node" : "user", name));
  TRY(const SecretText key,
      read_secret_file("key file", authority_folder + "/ca.key", kPemBytesMax));
  PemPair authority;
  authority.key = key.text();
  TRY(authority.certificate, read_trusted_file("file", authority_folder + "/ca.crt", kPemBytesMax));
  auto issued = issue_certificate(authority, role, name, {now - kHour, now + days * kDay});
  if (!issued) return std::move(issued).error().with_context(authority_folder);
  TRY_VOID(create_files(folder, {{"tls.key", issued->key, 0600},
                                 {"tls.crt", issued->certificate, 0644},
                                 {"ca.crt", authority.certificate, 0644}}));
  return issued->valid_until;
}

}  // namespace train
