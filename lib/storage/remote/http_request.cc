#include "lib/storage/remote/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/storage/remote/retries.h"

namespace train::remote {
namespace {

Errc code_of(long status) {
  if (status == 412) return Errc::AlreadyExists;
  if (status == 404) return Errc::NotFound;
  if (status == 401 || status == 403) return Errc::Permission;
  return worth_another_try(status) ? Errc::Unavailable : Errc::Io;
}

/// Return how long one try may take: a server that trickles would hold up the training for ever.
Duration range_timeout(std::size_t bytes) {
  constexpr std::size_t kBytesPerSecond = 128 << 10;
  return seconds(30) + seconds(static_cast<std::int64_t>(bytes / kBytesPerSecond));
}

}  // namespace

Result<std::string> ask_once(const std::function<Result<WebRequest>()>& make,
                             const std::function<std::string(const std::string& body)>& message_of,
                             const StoreHints& hints) {
  TRY(const WebRequest request, make());
  WebAnswer answer = ask(request);
  if (answer.good()) return std::move(answer.body);
  const std::string what = answer.status == 0
                               ? answer.failure
                               : fmt::format("{} {}", answer.status, message_of(answer.body));
  const Errc code = code_of(answer.status);
  return Error{code, fmt::format("{} {}: {}", request.method, request.url, what), hints.of(code)};
}

Result<std::string> ask_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options) {
  return insist(options, [&] { return ask_once(make, message_of, hints); });
}

Result<ObjectsPage> list_until(
    const std::function<Result<WebRequest>()>& make,
    const std::function<std::string(const std::string& body)>& message_of,
    const std::function<Result<ObjectsPage>(std::string_view body)>& parse,
    const std::string& shown, const StoreHints& hints, const ObjectStoreOptions& options) {
  auto page = insist(options, [&]() -> Result<ObjectsPage> {
    TRY(const std::string body, ask_once(make, message_of, hints));
    auto parsed = parse(body);
    if (parsed.has_error()) parsed = Error{Errc::Unavailable, parsed.error().message};
    return parsed;
  });
  if (page.has_error())
    return std::move(page).error().with_context(fmt::format("listing '{}'", shown));
  return page;
}

Result<Unit> read_range_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const RangeRead& range, const std::string& shown,
                              const StoreHints& hints, const ObjectStoreOptions& options) {
  const std::function<bool()> given_up = [&] {
    return no_more_tries || (range.cancelled && range.cancelled());
  };
  const auto failed = [&](Errc code, std::string_view why) {
    return Error{code, fmt::format("reading '{}': {}", shown, why), hints.of(code)};
  };
  return insist(
      options,
      [&]() -> Result<Unit> {
        TRY(WebRequest request, make());
        request.headers.push_back(
            fmt::format("Range: bytes={}-{}", range.offset, range.offset + range.bytes - 1));
        request.into = range.to;
        request.into_bytes = range.bytes;
        request.keep_connection = true;
        request.timeout = range_timeout(range.bytes);
        request.cancelled = given_up;
        const WebAnswer answer = ask(request);
        if (given_up()) return failed(Errc::Cancelled, "given up");
        if (answer.too_long) return failed(Errc::Io, "the server sends more than was asked for");
        if (answer.status == 0) return failed(Errc::Unavailable, answer.failure);
        if (answer.status == 412 || answer.status == 416)
          return Error{Errc::Corrupt,
                       fmt::format("'{}' is not what it was when it was listed", shown),
                       "it was replaced meanwhile: start the run again"};
        if (!answer.good())
          return failed(code_of(answer.status),
                        fmt::format("{} {}", answer.status, message_of(answer.body)));
        if (answer.bytes_into == range.bytes) return Unit{};
        return failed(Errc::Unavailable,
                      fmt::format("{} bytes came, and not {}", answer.bytes_into, range.bytes));
      },
      given_up);
}

Result<std::vector<ObjectStatus>> all_pages(
    const std::function<Result<ObjectsPage>(const std::string& name)>& page,
    std::size_t objects_max, const std::string& shown) {
  constexpr int kPagesMax = 20'000;
  std::vector<ObjectStatus> all;
  std::string name;
  for (int pages = 0; pages < kPagesMax; ++pages) {
    TRY(ObjectsPage next, page(name));
    if (next.objects.size() > objects_max - all.size())
      return Error{Errc::ResourceExhausted,
                   fmt::format("there are more than {} objects below '{}'", objects_max, shown),
                   "give a longer path"};
    std::move(next.objects.begin(), next.objects.end(), std::back_inserter(all));
    if (next.next.empty()) {
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
      return all;
    }
    if (next.next == name) break;
    name = std::move(next.next);
  }
  return Error{Errc::Io, fmt::format("a list of the objects below '{}' that has no end", shown)};
}

}  // namespace train::remote
