// Requests to the train-run that controls a run, through the run's folder. Whoever wants something
// of a running run (a command, the dashboard) leaves a file `.stacks-ID`, `.profile-ID`,
// `.checkpoint-ID` or `.call-ID`; the launcher takes it, does what it asks for, and answers in a
// file `.answer-ID`, which whoever asked removes.
//
// Others may write to the folder, too: requests and answers may hold anything. What they ask for is
// done, but for commands (WorkerCall): those only our user and root may ask for.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cluster/run/worker_call.h"
#include "launcher/core/run_events.h"
#include "lib/base/time.h"
#include "lib/net/task.h"
#include "lib/profile/profile.h"
#include "lib/storage/run_folder.h"

namespace train {

/// A request for the stacks of these ranks; empty: of all.
struct StacksRequest {
  std::vector<Rank> ranks = {};
};

/// A request for a profile of a rank.
struct ProfileRequest {
  Rank rank;
  ProfileKind kind = ProfileKind::Cpu;
  Duration time = seconds(5);  // 1 ms to kProfileTimeMax
};
/// The endings of the files of a profile. The answer's path is that with the first one.
inline constexpr std::array<const char*, 4> kProfileEndings = {".txt", ".folded",
                                                               ".speedscope.json", ".html"};

/// A request for a checkpoint now, after which the run goes on.
struct CheckpointNowRequest {};

/// What came of a request.
struct RequestAnswer {
  std::string path = {};         // of the file with the result, below the run's folder
  std::string error = {};        // why there is none; empty: there is one
  std::uint64_t checkpoint = 0;  // the number of one that was asked for
  std::optional<CallAnswers> called = {};
  bool operator==(const RequestAnswer&) const = default;
};

// ---- for whoever asks; calls block

/// A request that was left, until its end. The file of an unanswered request is removed then.
class PendingRequest {
 public:
  /// Leave a request in the folder of a run that a launcher on this machine has.
  static Result<PendingRequest> leave(const RunFolder& folder, const StacksRequest& request);
  static Result<PendingRequest> leave(const RunFolder& folder, const ProfileRequest& request);
  static Result<PendingRequest> leave(const RunFolder& folder, const CheckpointNowRequest& request);
  static Result<PendingRequest> leave(const RunFolder& folder, const WorkerCall& call);

  PendingRequest(PendingRequest&& other) noexcept
      : folder_(std::move(other.folder_)),
        name_(std::exchange(other.name_, {})),
        id_(std::move(other.id_)) {}
  PendingRequest& operator=(PendingRequest&& other) = delete;
  ~PendingRequest();

  /// Return the answer, if it is there, and remove its file. Its path leads into the run's folder
  /// and its file can be read as it is; an answer that is none of ours is an error.
  std::optional<RequestAnswer> take_answer();

 private:
  PendingRequest(std::string folder, std::string name, std::string id)
      : folder_(std::move(folder)), name_(std::move(name)), id_(std::move(id)) {}
  static Result<PendingRequest> leave(const RunFolder& folder, std::string_view prefix,
                                      const std::string& text, const std::string& id,
                                      bool secret = false);

  std::string folder_;
  std::string name_;  // of the request's file; empty: answered
  std::string id_;
};

// ---- for the launcher

struct RequestHandlers {
  std::function<void(const std::string& id, StacksRequest)> stacks;
  /// An error says what is wrong with the request.
  std::function<void(const std::string& id, Result<ProfileRequest>)> profile;
  std::function<void(const std::string& id)> checkpoint;
  std::function<void(const std::string& id, Result<WorkerCall>)> call;
};

/// Look for requests in `folder` each half second until the flow is cancelled, and pass each on
/// once. Of very many, some are taken later.
asio::awaitable<void> watch_requests(std::string folder, RequestHandlers handlers);

/// Answer a request. Answers that nobody has taken for ten minutes are removed. Blocks.
Result<Unit> answer_request(const std::string& folder, const std::string& id,
                            const RequestAnswer& answer);

}  // namespace train
