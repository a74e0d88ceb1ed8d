#include "launcher/cluster/run/run_requests.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <deque>
#include <filesystem>
#include <random>
#include <set>

#include "lib/base/file_descriptor.h"
#include "lib/base/write_all.h"
#include "lib/net/within.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
constexpr Duration kLookEvery = milliseconds(500);
constexpr std::size_t kTakenAtOnceMax = 16;
constexpr std::size_t kRequestBytesMax = 1u << 20;  // more than 65,536 ranks take
constexpr std::size_t kAnswerBytesMax = 32u << 20;  // answers of many ranks to a call
constexpr std::size_t kErrorBytesMax = 8192;
constexpr std::int64_t kRanksMax = 1 << 24;
constexpr std::size_t kIdBytesMax = 64;
constexpr auto kUntakenMax = std::chrono::minutes(10);
constexpr std::string_view kStacks = ".stacks-", kProfile = ".profile-",
                           kCheckpointNow = ".checkpoint-", kCall = ".call-", kAnswer = ".answer-",
                           kDraft = ".draft-";
constexpr std::string_view kResults = "attempts/";  // where all results are

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= kIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
         });
}

/// Return the id in the name of a file of this kind, or "".
std::string id_in(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return "";
  std::string id = name.substr(prefix.size());
  return is_id(id) ? id : "";
}

std::string new_id() {
  std::random_device random;
  return fmt::format("{:x}-{:08x}{:08x}", ::getpid(), random(), random());
}

std::string real_path(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

/// Return a file's text, or "". A FIFO is not waited for, nor a huge file read.
std::string read_bounded(const std::string& path, std::size_t bytes_max) {
  PosixFileSystem files;
  const auto text = read_small_file(files, path, bytes_max);
  return text ? *text : std::string();
}

/// Make a file that is complete from its first moment on; a `secret` one is for its owner only. Not
/// synced: it is of no use after a power cut.
Result<Unit> put_file(const std::string& folder, const std::string& name, std::string_view id,
                      std::string_view text, bool secret = false) {
  PosixFileSystem files;
  const std::string draft = join_path(folder, std::string(kDraft) + std::string(id));
  const FileDescriptor file(::open(
      draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, secret ? 0600 : 0666));
  if (file.get() < 0) return system_error(errno, "creating " + draft);
  auto put = write_all(file.get(), text, draft);
  // Its name is ours alone. rename_new() may give a file two names for a moment.
  if (put) put = files.rename(draft, join_path(folder, name));
  if (!put) (void)files.remove_file(draft);
  return put;
}

/// Return the ranks that a request names. A request that is none of ours names none: all.
StacksRequest parse_stacks_request(const std::string& text) {
  StacksRequest request;
  boost::system::error_code error;
  const auto value = json::parse(text, error);
  const auto* list = error ? nullptr : value.if_array();
  if (list == nullptr) return request;
  for (const auto& item : *list) {
    const auto* rank = item.if_int64();
    if (rank != nullptr && *rank >= 0 && *rank < kRanksMax)
      request.ranks.push_back(Rank{static_cast<std::int32_t>(*rank)});
  }
  return request;
}

Result<ProfileRequest> parse_profile_request(const std::string& text) {
  boost::system::error_code error;
  const auto value = json::parse(text, error);
  const auto* object = error ? nullptr : value.if_object();
  if (object == nullptr) return Error{Errc::InvalidArgument, "the request cannot be read"};
  const auto number_of = [object](std::string_view key) {
    const auto* member = object->if_contains(key);
    return member != nullptr && member->is_int64() ? member->as_int64() : -1;
  };
  const auto* name = object->if_contains("kind");
  const auto kind = name == nullptr || !name->is_string()
                        ? std::nullopt
                        : profile_kind(std::string_view(name->as_string()));
  const std::int64_t rank = number_of("rank"), time_ms = number_of("time_ms");
  if (rank < 0 || rank >= kRanksMax)
    return Error{Errc::InvalidArgument, "the request names no rank"};
  if (!kind) return Error{Errc::InvalidArgument, "this train-run knows no such kind of profile"};
  if (time_ms < 1 || milliseconds(std::min<std::int64_t>(time_ms, 1'000'000)) > kProfileTimeMax)
    return Error{Errc::InvalidArgument,
                 fmt::format("a profile takes up to {}", format_duration(kProfileTimeMax))};
  return ProfileRequest{
      .rank = Rank{static_cast<std::int32_t>(rank)}, .kind = *kind, .time = milliseconds(time_ms)};
}

struct TakenRequest {
  std::string text = {};
  /// Why a command in it is not run: others may have written it, or asked for it again. "": nobody.
  std::string foreign = {};
};

/// Others may write to the run's folder, and may have the program's functions called. But a command
/// is run as our user: a request for one names its folder and its id, so that nobody else can use
/// it elsewhere or again.
Result<WorkerCall> parse_call_request(const TakenRequest& request, const std::string& folder,
                                      const std::string& id) {
  boost::system::error_code error;
  const auto value = parse_call_text(request.text, error);
  if (error || !value.is_object())
    return Error{Errc::InvalidArgument, "the request cannot be read"};
  const json::object& members = value.as_object();
  TRY(WorkerCall call, parse_worker_call(members));
  if (call.command.empty()) return call;
  const auto says = [&](std::string_view name, const std::string& what) {
    const json::value* found = members.if_contains(name);
    return found != nullptr && found->is_string() && found->as_string() == what;
  };
  const bool for_us = says("id", id) && says("folder", real_path(folder));
  if (!for_us || !request.foreign.empty())
    return Error{Errc::Permission,
                 fmt::format("only the user whose run this is, or root, may run commands beside "
                             "its workers: the request {}",
                             request.foreign.empty() ? "was made for another run or under another "
                                                       "name"
                                                     : request.foreign)};
  return call;
}

/// Pass on the names in the folder, until `go_on` returns false.
void visit_names(const std::string& folder, const std::function<bool(const std::string&)>& go_on) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!go_on(entry->path().filename().string())) return;
}

/// Read a file and remove it. Nothing if it cannot be removed: it would come again.
std::optional<std::string> take_file(const std::string& path, std::size_t bytes_max) {
  std::string text = read_bounded(path, bytes_max);
  if (::unlink(path.c_str()) != 0) return std::nullopt;
  return text;
}

/// Return why somebody else may have made this request, or may have kept it back; "" if nobody.
std::string why_foreign(const struct stat& found) {
  if (found.st_uid != ::geteuid() && found.st_uid != 0)
    return fmt::format("belongs to user {}", found.st_uid);
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("can be written by others (mode {:o})", found.st_mode & 07777);
  if (found.st_nlink != 1) return "has another name, too";
  const auto age =
      std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(found.st_mtime);
  return age > kUntakenMax ? "is too old" : "";
}

/// Do the same for a request.
std::optional<TakenRequest> take_request_file(const std::string& path) {
  TakenRequest taken;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  if (file.get() >= 0 && ::fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
      found.st_size <= static_cast<off_t>(kRequestBytesMax)) {
    taken.text.resize(static_cast<std::size_t>(found.st_size));
    const ssize_t got = ::pread(file.get(), taken.text.data(), taken.text.size(), 0);
    taken.text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    taken.foreign = why_foreign(found);
  }
  if (::unlink(path.c_str()) != 0) return std::nullopt;
  return taken;
}

/// The newest ids of calls, so that none is taken twice. Of older ones, the file is too old.
class TakenIds {
 public:
  bool add(const std::string& id) {
    if (!ids_.insert(id).second) return false;
    order_.push_back(id);
    if (order_.size() > kIdsMax) {
      ids_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  static constexpr std::size_t kIdsMax = 20'000;  // as many as can be taken in kUntakenMax
  std::set<std::string> ids_;
  std::deque<std::string> order_;
};

/// Take a request, if that is its name, and pass it on. Return whether it was one.
bool take_request(const std::string& folder, const std::string& name,
                  const RequestHandlers& handlers, TakenIds& taken_ids) {
  const std::string stacks = id_in(name, kStacks), profile = id_in(name, kProfile),
                    checkpoint = id_in(name, kCheckpointNow), call = id_in(name, kCall);
  if (stacks.empty() && profile.empty() && checkpoint.empty() && call.empty()) return false;
  auto taken = take_request_file(join_path(folder, name));
  if (!taken) return false;
  if (!call.empty() && !taken_ids.add(call)) taken->foreign = "was taken before";
  if (!checkpoint.empty())
    handlers.checkpoint(checkpoint);
  else if (!call.empty())
    handlers.call(call, parse_call_request(*taken, folder, call));
  else if (!profile.empty())
    handlers.profile(profile, parse_profile_request(taken->text));
  else
    handlers.stacks(stacks, parse_stacks_request(taken->text));
  return true;
}

void remove_untaken_answers(const std::string& folder) {
  visit_names(folder, [&folder](const std::string& name) {
    if (id_in(name, kAnswer).empty() && id_in(name, kDraft).empty()) return true;
    std::error_code error;
    const std::string path = join_path(folder, name);
    const auto made = fs::last_write_time(path, error);
    if (!error && fs::file_time_type::clock::now() - made > kUntakenMax) ::unlink(path.c_str());
    return true;
  });
}

/// Return whether a path can only lead to a file that the run's launcher has made for a request.
bool is_below_results(std::string_view path) {
  if (!path.starts_with(kResults) || path.size() > 4096) return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

RequestAnswer parse_answer(const std::string& text) {
  boost::system::error_code error;
  const auto value = parse_call_text(text, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto text_of = [object](std::string_view key) {
    const auto* member = object == nullptr ? nullptr : object->if_contains(key);
    return member != nullptr && member->is_string() ? std::string(member->as_string()) : "";
  };
  RequestAnswer answer{.path = text_of("path"), .error = text_of("error")};
  const auto* number = object == nullptr ? nullptr : object->if_contains("checkpoint");
  if (number != nullptr && number->is_int64() && number->as_int64() > 0)
    answer.checkpoint = static_cast<std::uint64_t>(number->as_int64());
  const auto* called = object == nullptr ? nullptr : object->if_contains("called");
  if (called != nullptr && called->is_object()) {
    if (auto answers = parse_call_answers(json::serialize(*called)))
      answer.called = std::move(*answers);
  }
  if (answer.called) return answer;
  const bool named = answer.path.empty() ? answer.checkpoint > 0 : is_below_results(answer.path);
  if (answer.error.empty() && !named)
    answer = {.path = "", .error = "its launcher's answer cannot be read"};
  return answer;
}

}  // namespace

Result<PendingRequest> PendingRequest::leave(const RunFolder& folder,
                                             const StacksRequest& request) {
  json::array list;
  for (const Rank rank : request.ranks) list.push_back(rank.value);
  return leave(folder, kStacks, json::serialize(list), new_id());
}

Result<PendingRequest> PendingRequest::leave(const RunFolder& folder,
                                             const ProfileRequest& request) {
  const json::object text{
      {"rank", request.rank.value},
      {"kind", to_string(request.kind)},
      {"time_ms", std::chrono::duration_cast<milliseconds>(request.time).count()}};
  return leave(folder, kProfile, json::serialize(text), new_id());
}

Result<PendingRequest> PendingRequest::leave(const RunFolder& folder, const CheckpointNowRequest&) {
  return leave(folder, kCheckpointNow, "{}", new_id());
}

Result<PendingRequest> PendingRequest::leave(const RunFolder& folder, const WorkerCall& call) {
  json::object text = to_json(call);
  const bool secret = !call.command.empty();  // else the run's user may be another one
  const std::string id = new_id();
  if (secret) {
    text["id"] = id;
    text["folder"] = real_path(folder.path());
  }
  return leave(folder, kCall, json::serialize(text), id, secret);
}

Result<PendingRequest> PendingRequest::leave(const RunFolder& folder, std::string_view prefix,
                                             const std::string& text, const std::string& id,
                                             bool secret) {
  const std::string name = std::string(prefix) + id;
  TRY_VOID(put_file(folder.path(), name, id, text, secret));
  return PendingRequest(folder.path(), name, id);
}

PendingRequest::~PendingRequest() {
  if (name_.empty()) return;  // answered, or moved from
  ::unlink(join_path(folder_, name_).c_str());
  ::unlink(join_path(folder_, std::string(kAnswer) + id_).c_str());
}

std::optional<RequestAnswer> PendingRequest::take_answer() {
  const std::string path = join_path(folder_, std::string(kAnswer) + id_);
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  const auto text = take_file(path, kAnswerBytesMax);
  name_.clear();
  return parse_answer(text.value_or(""));
}

asio::awaitable<void> watch_requests(std::string folder, RequestHandlers handlers) {
  TakenIds taken_ids;
  for (;;) {
    std::size_t taken = 0;
    visit_names(folder, [&](const std::string& name) {
      taken += take_request(folder, name, handlers, taken_ids) ? 1 : 0;
      return taken < kTakenAtOnceMax;
    });
    const auto woken = co_await pause_for(kLookEvery);
    if (!woken) co_return;
  }
}

Result<Unit> answer_request(const std::string& folder, const std::string& id,
                            const RequestAnswer& answer) {
  if (!is_id(id)) return Error{Errc::InvalidArgument, "no id of a request"};
  remove_untaken_answers(folder);
  json::object text{{"path", answer.path},
                    {"checkpoint", answer.checkpoint},
                    {"error", std::string_view(answer.error).substr(0, kErrorBytesMax)}};
  if (answer.called) text["called"] = to_json(*answer.called);
  return put_file(folder, std::string(kAnswer) + id, id, json::serialize(text));
}

}  // namespace train
