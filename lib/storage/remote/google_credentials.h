// Access tokens for Google's storage, found where Google's own tools look for them ("Application
// Default Credentials", https://google.aip.dev/auth/4110): the file that
// GOOGLE_APPLICATION_CREDENTIALS names, the one of `gcloud auth application-default login`, the
// machine's own account.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "lib/storage/object_store.h"
#include "lib/storage/remote/http_request.h"

namespace train::remote {

class GoogleCredentials {
 public:
  /// Reads the file; asks nobody yet. InvalidArgument: the file cannot be read, or is of a kind
  /// that is not known here (external_account, …).
  static Result<std::unique_ptr<GoogleCredentials>> find(const ObjectStoreOptions& options);

  /// One that is good for some minutes more. Blocks for a request where there is none, which is not
  /// repeated. Any thread.
  Result<std::string> token();
  /// Of a service account: the file's text; empty with other kinds.
  const std::string& service_account() const { return service_account_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind { ServiceAccount, User, Machine };

  GoogleCredentials() = default;
  Result<Unit> read(const std::string& path, const std::string& text);
  Result<HttpRequest> request(std::string& form) const;

  Kind kind_ = Kind::Machine;
  std::map<std::string, std::string> entries_;  // of the file
  std::string service_account_, machine_host_;
  std::mutex mutex_;
  std::string token_;
  std::optional<Clock::time_point> renew_at_;
};

}  // namespace train::remote
