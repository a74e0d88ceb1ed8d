#include "lib/net/tls_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>

#include "lib/net/secret_file.h"
#include "lib/net/token.h"

namespace train {
namespace {

constexpr std::size_t kPemBytesMax = 256u << 10;
constexpr std::array<const char*, 3> kFiles{"ca.crt", "tls.crt", "tls.key"};
constexpr Duration kLookEvery = seconds(1);
constexpr std::time_t kDay = 86'400, kSoon = 30 * kDay;

Result<TlsContext> read_folder(const std::string& folder, CertificateRole role) {
  TRY(const std::string authorities, read_trusted_file("file", folder + "/ca.crt", kPemBytesMax));
  TRY(const std::string certificate, read_trusted_file("file", folder + "/tls.crt", kPemBytesMax));
  TRY(const SecretText key, read_secret_file("key file", folder + "/tls.key", kPemBytesMax));
  auto context = TlsContext::from_certificates(
      {.authorities = authorities, .certificate = certificate, .key = key.text()});
  if (!context) {
    Error error = std::move(context).error();
    error.message = folder + "/" + error.message;
    return error;
  }
  if (context->name()->role != role) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{}/tls.crt is for {}, and a {}'s is asked for", folder,
                             context->name()->uri(), to_string(role)),
                 fmt::format("make one with: traind certs {} {}", to_string(role),
                             role == CertificateRole::Node ? "NAME" : "USER")};
  }
  return context;
}

Result<TlsContext> read_paths(const TlsPaths& paths, CertificateRole role) {
  if (!paths.folder.empty()) return read_folder(paths.folder, role);
  TRY(const Token token, read_token_file(paths.token_file));
  return TlsContext::from_token(token);
}

/// Return a text that changes when the file is replaced or modified; "" if there is no file.
std::string stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{} {} {} {}.{}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace

Result<TlsFiles> TlsFiles::read(TlsPaths paths, CertificateRole role) {
  if (!paths.folder.empty() && !paths.token_file.empty()) {
    return Error{Errc::InvalidArgument, "a token file and a folder of certificates are both named",
                 "name one: --token-file FILE, or --tls FOLDER"};
  }
  TlsFiles files(std::move(paths), role);
  files.stamps_ = files.stamps();
  if (!files.stamps_.empty()) TRY_VOID(files.read_again());
  return files;
}

TlsFiles TlsFiles::of_token(const Token& token, CertificateRole role) {
  TlsFiles files({}, role);
  files.context_.emplace(TlsContext::from_token(token));
  return files;
}

bool TlsFiles::changed(TimePoint now) {
  if (now - looked_at_ < kLookEvery) return false;
  looked_at_ = now;
  auto stamps_now = stamps();
  if (stamps_now == stamps_) return false;
  stamps_ = std::move(stamps_now);
  return true;
}

Result<Unit> TlsFiles::read_again() {
  if (paths_.folder.empty() && paths_.token_file.empty()) return Unit{};
  TRY(auto context, read_paths(paths_, role_));
  context_.emplace(std::move(context));
  return Unit{};
}

std::string TlsFiles::name() const {
  return context_ && context_->name() ? context_->name()->uri() : "";
}

std::string TlsFiles::valid_until() const {
  return name().empty() ? "" : fmt::format("{:%Y-%m-%d}", fmt::gmtime(context_->valid_until()));
}

std::string TlsFiles::soon_over(std::time_t now) const {
  if (name().empty() || context_->valid_until() - now > kSoon) return "";
  return fmt::format("the certificate of {} is valid until {}", name(), valid_until());
}

std::vector<std::string> TlsFiles::stamps() const {
  if (!paths_.token_file.empty()) return {stamp_of(paths_.token_file)};
  std::vector<std::string> all;
  if (!paths_.folder.empty())
    for (const char* name : kFiles) all.push_back(stamp_of(paths_.folder + "/" + name));
  return all;
}

}  // namespace train
