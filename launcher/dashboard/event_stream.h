// Server-sent events: what has changed since the frame before, at most two frames a second. The
// server asks for the next frame once the client has the one before, so a slow client costs no
// memory: what it has missed is in one frame, or it is told to load everything anew.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/dashboard/run_catalog.h"
#include "launcher/dashboard/run_tasks.h"
#include "lib/base/time.h"
#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

inline constexpr std::size_t kStreamFrameBytesMax = 1u << 20;  // more: the client is cut off

/// Return a frame: "event: …\nid: …\ndata: …\n\n". `data` is one line. Pure.
std::string event_frame(std::string_view event, std::string_view id, std::string_view data);

class EventStream final : public HttpStream {
 public:
  static constexpr Duration kFrameEvery = milliseconds(500), kRunsEvery = seconds(2);
  static constexpr Duration kAliveEvery = seconds(15);  // a comment, to notice that nobody reads

  /// All outlive this object. InvalidArgument: the request names a topic that does not exist;
  /// NotFound: a run.
  static Result<std::unique_ptr<EventStream>> open(asio::thread_pool& readers, RunCatalog& catalog,
                                                   RunTasks& tasks, const HttpRequest& request);

  Task<std::string> next() override;

 private:
  EventStream(asio::thread_pool& readers, RunCatalog& catalog, RunTasks& tasks,
              const HttpRequest& request)
      : readers_(readers), catalog_(catalog), tasks_(tasks), query_(request.target.query) {}
  bool wants(std::string_view topic) const;
  void resume(const std::string& last_event_id);
  std::string look();
  void look_at_runs(std::string& frames);
  void look_at_sweeps(std::string& frames);
  void look_at_sweep(SweepData& sweep, std::string& frames);
  void look_at_trials(SweepData& sweep, std::string& frames);
  /// A row as it is sent, and as it is compared with the one before.
  struct Row {
    std::string id, text, compared;
  };
  void add_rows(std::string& frames, const std::string& topic, const std::vector<Row>& rows);
  void look_at(RunData& run, std::string& frames);
  void look_at_events(RunData& run, std::string& frames);
  void look_at_logs(RunData& run, std::string& frames);
  void look_at_tasks(RunData& run, std::string& frames);
  void add(std::string& frames, std::string_view event, std::string_view data) const;
  std::string id() const;

  asio::thread_pool& readers_;
  RunCatalog& catalog_;
  RunTasks& tasks_;
  const HttpQuery query_;
  std::shared_ptr<RunReader> run_;      // of one run,
  std::shared_ptr<SweepReader> sweep_;  // or one sweep; neither: of all
  std::vector<std::string> topics_;
  bool first_ = true, resumed_ = false;
  std::map<std::string, std::map<std::string, std::string>> rows_;  // by topic and id, as sent
  bool trials_ = true;                                              // among runs
  std::map<std::string, std::string> tasks_sent_;
  std::uint64_t seq_ = 0, reports_ = 0, version_ = 0;
  int readings_ = 0;
  std::int64_t samples_ms_ = 0;
  std::string log_after_;
  TimePoint alive_ = {};
};

}  // namespace train
