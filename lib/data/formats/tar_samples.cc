#include "lib/data/formats/tar_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/data/formats/text_units.h"

namespace train::data {
namespace {

constexpr std::size_t kFieldsMax = 1000;

struct Name {
  std::string key, field;
};

/// Cut a member's name at the first dot of its last part. Nothing for names that belong to no
/// sample, as the webdataset package sees it: without such a dot, or hidden.
std::optional<Name> split(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base || dot + 1 == name.size()) return std::nullopt;
  Name cut{.key = name.substr(0, dot), .field = name.substr(dot + 1)};
  std::transform(cut.field.begin(), cut.field.end(), cut.field.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return cut;
}

}  // namespace

const TarField* TarSample::field(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const TarField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

Result<std::optional<TarSample>> TarSamples::next() {
  while (true) {
    TRY(const auto member, reader_.next());
    if (!member) {
      TarSample last = std::exchange(sample_, {});
      if (last.fields.empty()) return std::optional<TarSample>();
      return std::optional(std::move(last));
    }
    auto name = member->regular ? split(member->name) : std::nullopt;
    if (!name) continue;
    if (sample_.fields.empty() || name->key == sample_.key) {
      sample_.key = std::move(name->key);
      TRY_VOID(add(*member, std::move(name->field)));
      continue;
    }
    keys_.insert(std::hash<std::string>()(sample_.key));
    if (keys_.contains(std::hash<std::string>()(name->key))) {
      return Error{Errc::InvalidArgument,
                   fmt::format("the sample {} has other samples between its members ({})",
                               name->key, member->name),
                   "members of a sample must be neighbours: make the archive with tar --sort=name"};
    }
    TarSample done = std::exchange(sample_, {});
    sample_ = {.key = std::move(name->key), .begin = done.end, .end = done.end};
    TRY_VOID(add(*member, std::move(name->field)));
    return std::optional(std::move(done));
  }
}

Result<Unit> TarSamples::add(const TarMember& member, std::string field) {
  if (sample_.field(field) != nullptr) {
    return Error{Errc::InvalidArgument,
                 fmt::format("the sample {} has two members .{}", sample_.key, field),
                 "give each sample a key of its own"};
  }
  sample_.fields.push_back(
      {.name = std::move(field), .content_at = member.content_at, .size = member.size});
  sample_.end = member.end;
  if (sample_.fields.size() > kFieldsMax) {
    return Error{Errc::InvalidArgument,
                 fmt::format("the sample {} has more than {} members", sample_.key, kFieldsMax)};
  }
  if (sample_.end - sample_.begin > kTextUnitMax)
    return Error{Errc::InvalidArgument, fmt::format("the sample {} has over 1 GiB", sample_.key)};
  return Unit{};
}

}  // namespace train::data
