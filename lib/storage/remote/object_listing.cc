#include "lib/storage/remote/object_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <boost/property_tree/ptree.hpp>
#include <charconv>
#include <limits>

#include "lib/storage/remote/s3_xml.h"

namespace train::remote {
namespace {

constexpr std::size_t kVersionBytesMax = 256;
constexpr std::string_view kList = "a list of objects";

/// Check what the store says of an object. The version becomes a header of later requests.
Result<ObjectStatus> object_of(std::string key, std::string_view size, std::string version) {
  ObjectStatus object{.key = std::move(key), .version = std::move(version)};
  const auto read = std::from_chars(size.data(), size.data() + size.size(), object.bytes);
  if (size.empty() || read.ec != std::errc() || read.ptr != size.data() + size.size() ||
      object.bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return Error{Errc::Io,
                 fmt::format("{} that cannot be read: the size of '{}'", kList, object.key)};
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f; };
  if (object.version.empty() || object.version.size() > kVersionBytesMax ||
      !std::all_of(object.version.begin(), object.version.end(), printable))
    return Error{Errc::Io,
                 fmt::format("{} that cannot be read: the version of '{}'", kList, object.key)};
  return object;
}

struct Listed {
  std::string key, size, version;
};

Result<ObjectsPage> page_of(std::vector<Listed> listed, std::string next) {
  ObjectsPage page{.objects = {}, .next = std::move(next)};
  for (Listed& one : listed) {
    TRY(auto object, object_of(std::move(one.key), one.size, std::move(one.version)));
    page.objects.push_back(std::move(object));
  }
  return page;
}

std::string text_of(const boost::json::object& entry, std::string_view name) {
  const auto* value = entry.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

}  // namespace

Result<ObjectsPage> parse_s3_objects(std::string_view body) {
  std::vector<Listed> listed;
  std::string next;
  TRY_VOID(read_s3_xml(body, kList, [&](const boost::property_tree::ptree& tree) {
    const auto& result = tree.get_child("ListBucketResult");
    for (const auto& [name, entry] : result) {
      if (name == "Contents")
        listed.push_back({entry.get<std::string>("Key"), entry.get<std::string>("Size"),
                          entry.get<std::string>("ETag")});
    }
    if (result.get<std::string>("IsTruncated", "") == "true")
      next = result.get<std::string>("NextContinuationToken");
  }));
  return page_of(std::move(listed), std::move(next));
}

Result<ObjectsPage> parse_gcs_objects(std::string_view body) {
  boost::system::error_code ec;
  const boost::json::value value = boost::json::parse(body, ec);
  const auto* result = ec ? nullptr : value.if_object();
  if (result == nullptr) return Error{Errc::Io, fmt::format("{} that is no JSON object", kList)};
  std::vector<Listed> listed;
  const auto* items = result->if_contains("items");
  if (items != nullptr && items->is_array()) {
    for (const auto& item : items->get_array()) {
      if (!item.is_object()) return Error{Errc::Io, fmt::format("{} with something else", kList)};
      const auto& entry = item.get_object();
      listed.push_back(
          {text_of(entry, "name"), text_of(entry, "size"), text_of(entry, "generation")});
    }
  }
  return page_of(std::move(listed), text_of(*result, "nextPageToken"));
}

}  // namespace train::remote
