#include "lib/storage/remote/google_credentials.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <iterator>
#include <vector>

#include "lib/base/text_file.h"
#include "lib/storage/remote/store_environment.h"

namespace train::remote {
namespace {

namespace json = boost::json;

constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";
constexpr auto kMargin = std::chrono::minutes(5);  // how long before its end a token is renewed

std::string base64url(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

/// Sign with RSASSA-PKCS1-v1_5 and SHA-256 (RS256 of RFC 7518).
Result<std::string> sign(const std::string& key_pem, std::string_view text) {
  const Error bad_key{Errc::InvalidArgument, "the service account's private_key cannot be used"};
  const std::unique_ptr<BIO, int (*)(BIO*)> memory(
      BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())), BIO_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (key == nullptr) return bad_key;
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1)
    return bad_key;
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes, text.size()) != 1)
    return bad_key;
  signature.resize(size);
  return signature;
}

/// Return the signed assertion that a service account exchanges for a token:
/// https://google.aip.dev/auth/4112.
Result<std::string> assertion(const std::map<std::string, std::string>& account) {
  const std::time_t now = std::time(nullptr);
  const std::string head = json::serialize(
      json::object{{"alg", "RS256"}, {"typ", "JWT"}, {"kid", account.at("private_key_id")}});
  const std::string claims = json::serialize(json::object{{"iss", account.at("client_email")},
                                                          {"scope", kScope},
                                                          {"aud", account.at("token_uri")},
                                                          {"iat", now},
                                                          {"exp", now + 3600}});
  const std::string text = base64url(head) + "." + base64url(claims);
  TRY(const std::string signature, sign(account.at("private_key"), text));
  return text + "." + base64url(signature);
}

std::string message_of(const std::string& body) { return body.substr(0, 200); }

}  // namespace

Result<Unit> GoogleCredentials::read(const std::string& path, const std::string& text) {
  const auto unusable = [&](std::string_view why) {
    return Error{Errc::InvalidArgument, fmt::format("'{}' {}", path, why),
                 "set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or run "
                 "gcloud auth application-default login"};
  };
  boost::system::error_code ec;
  const json::value value = json::parse(text, ec);
  if (ec || !value.is_object()) return unusable("does not hold Google credentials");
  for (const auto& [name, entry] : value.as_object())
    if (entry.is_string()) entries_[name] = entry.as_string();
  entries_.emplace("token_uri", kTokenUri);
  std::vector<const char*> needed;
  if (entries_["type"] == "service_account") {
    kind_ = Kind::ServiceAccount;
    service_account_ = text;
    needed = {"private_key", "private_key_id", "client_email"};
  } else if (entries_["type"] == "authorized_user") {
    kind_ = Kind::User;
    needed = {"client_id", "client_secret", "refresh_token"};
  } else {
    return unusable(
        fmt::format("holds credentials of type '{}', which are not known here", entries_["type"]));
  }
  for (const char* name : needed)
    if (!entries_.contains(name)) return unusable(fmt::format("has no \"{}\"", name));
  return Unit{};
}

Result<std::unique_ptr<GoogleCredentials>> GoogleCredentials::find(
    const ObjectStoreOptions& options) {
  std::unique_ptr<GoogleCredentials> found(new GoogleCredentials());
  found->machine_host_ = variable(options, "GCE_METADATA_HOST");
  if (found->machine_host_.empty()) found->machine_host_ = "metadata.google.internal";
  const std::string named = variable(options, "GOOGLE_APPLICATION_CREDENTIALS");
  const std::string path =
      named.empty()
          ? variable(options, "HOME") + "/.config/gcloud/application_default_credentials.json"
          : named;
  const std::string text = read_text(path);
  if (text.empty()) {
    if (named.empty()) return found;
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' (GOOGLE_APPLICATION_CREDENTIALS) cannot be read", path),
                 "it must exist on every node and be readable by the user that workers run as"};
  }
  TRY_VOID(found->read(path, text));
  return found;
}

Result<WebRequest> GoogleCredentials::request(std::string& form) const {
  if (kind_ == Kind::Machine)
    return WebRequest{"GET",
                      fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/"
                                  "token",
                                  machine_host_),
                      {"Metadata-Flavor: Google"}};
  if (kind_ == Kind::ServiceAccount) {
    TRY(const std::string signed_claims, assertion(entries_));
    form = fmt::format("grant_type={}&assertion={}",
                       escaped("urn:ietf:params:oauth:grant-type:jwt-bearer"), signed_claims);
  } else {
    form = fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                       escaped(entries_.at("client_id")), escaped(entries_.at("client_secret")),
                       escaped(entries_.at("refresh_token")));
  }
  return WebRequest{
      "POST", entries_.at("token_uri"), {"Content-Type: application/x-www-form-urlencoded"}, form};
}

Result<std::string> GoogleCredentials::token() {
  const std::lock_guard lock(mutex_);
  if (renew_at_ && Clock::now() < *renew_at_) return token_;
  std::string form;
  TRY(const WebRequest once, request(form));
  const WebAnswer answer = ask(once);
  const auto failed = [&](Errc code, std::string_view why) {
    return Error{code, fmt::format("no access token from {}: {}", once.url, why),
                 "are you logged in (gcloud auth application-default login), is "
                 "GOOGLE_APPLICATION_CREDENTIALS set, or does the machine have a service account?"};
  };
  // If the metadata server does not answer, this is not a machine of Google's, so do not try again.
  const bool nobody = kind_ == Kind::Machine && answer.status == 0;
  if (!answer.good())
    return failed(
        worth_another_try(answer.status) && !nobody ? Errc::Unavailable : Errc::Permission,
        answer.status == 0 ? answer.failure
                           : fmt::format("{} {}", answer.status, message_of(answer.body)));
  boost::system::error_code ec;
  const json::value value = json::parse(answer.body, ec);
  const json::object* object = ec ? nullptr : value.if_object();
  const json::value* token = object != nullptr ? object->if_contains("access_token") : nullptr;
  const json::value* seconds = object != nullptr ? object->if_contains("expires_in") : nullptr;
  if (token == nullptr || !token->is_string() || seconds == nullptr || !seconds->is_int64())
    return failed(Errc::Protocol, "an answer without access_token and expires_in");
  token_ = token->as_string();
  renew_at_ = Clock::now() + std::chrono::seconds(seconds->as_int64()) - kMargin;
  return token_;
}

}  // namespace train::remote
