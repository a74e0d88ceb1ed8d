// URLs of storage other than a local file system: the known schemes and how their URLs are written.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace train {

struct StoreScheme {
  std::string_view prefix;   // "s3://"
  bool names_bucket = true;  // the rest must be non-empty and not begin with '/'
  std::string_view how;      // advice for a person who wrote it wrongly
};

inline constexpr std::array kStoreSchemes{
    StoreScheme{"s3://", true,
                "write s3://bucket/folder; the variables AWS_ENDPOINT_URL, AWS_REGION, "
                "AWS_PROFILE, AWS_ACCESS_KEY_ID, … set the endpoint and credentials"},
    StoreScheme{"gs://", true,
                "write gs://bucket/folder; GOOGLE_APPLICATION_CREDENTIALS or gcloud auth "
                "application-default login sets the credentials"},
    StoreScheme{"hdfs://", false,
                "write hdfs://namenode:8020/folder, or hdfs:///folder on the cluster that Hadoop's "
                "core-site.xml names"}};

/// Return the scheme of `location`; null for a path, and for a URL of no known store.
inline const StoreScheme* store_scheme(std::string_view location) {
  for (const StoreScheme& scheme : kStoreSchemes)
    if (location.starts_with(scheme.prefix)) return &scheme;
  return nullptr;
}

inline bool is_object_url(std::string_view location) { return store_scheme(location) != nullptr; }

/// Return what is wrong with a URL of that scheme ("names no bucket"), or "" if it is correct.
inline std::string_view mistake_in(const StoreScheme& scheme, std::string_view url) {
  const std::string_view rest = url.substr(scheme.prefix.size());
  if (scheme.names_bucket && (rest.empty() || rest.front() == '/')) return "names no bucket";
  if (!scheme.names_bucket && rest.find('/') == std::string_view::npos) return "names no folder";
  if (rest.find_first_of("?#") != std::string_view::npos) return "holds options";
  return {};
}

}  // namespace train
