#include "launcher/cluster/notify/event_notifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "launcher/cluster/notify/notify_command.h"
#include "launcher/spec/secrets.h"
#include "lib/base/thread.h"
#include "lib/http_client/http_client.h"

namespace train {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

/// Return "hooks.slack.com:443" of a URL, without a user.
std::string host_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  return std::string(url.substr(url.rfind('@') + 1));
}

bool wants(const NotifyTarget& target, NotifiedEvent event) {
  return std::find(target.on.begin(), target.on.end(), to_string(event)) != target.on.end();
}

Error failure_of(const WebAnswer& answer) {
  if (answer.status == 0) return {Errc::Unavailable, answer.failure};
  return {worth_another_try(answer.status) ? Errc::Unavailable : Errc::InvalidArgument,
          fmt::format("it answers with status {}", answer.status)};
}

}  // namespace

std::string NotifyTarget::name() const {
  return command.empty() ? "the webhook at " + host_of(url) : command.front();
}

Result<std::vector<NotifyTarget>> notify_targets(
    const std::vector<NotifyRule>& rules, const std::map<std::string, std::string>& submitter) {
  std::vector<NotifyTarget> targets;
  for (const NotifyRule& rule : rules) {
    TRY(std::string url, spec::resolve_webhook(rule, submitter));
    targets.push_back({rule.on, rule.command, std::move(url)});
  }
  return targets;
}

/// Delivers to one target.
class EventNotifier::Worker {
 public:
  Worker(NotifyTarget target, const Options& options)
      : target_(std::move(target)), options_(options) {
    thread_ = start_thread("trainrun-notify", [this] { run(); });
  }
  ~Worker() {
    end_by(TimePoint{});
    thread_.join();
  }

  const NotifyTarget& target() const { return target_; }

  void add(const Notification& notification) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() == kNotificationsQueuedMax) {
      queue_.pop_front();
      ++dropped_;
    }
    queue_.push_back(notification);
    changed_.notify_all();
  }

  /// Deliver what is there until then, and nothing afterwards.
  void end_by(TimePoint end) {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    end_ = std::min(end_, end);
    changed_.notify_all();
  }

  /// Wait for that, and say what was not delivered.
  void wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, end_, [this] { return done_; });
    const std::size_t left = dropped_ + queue_.size() + (done_ ? 0 : 1);
    lock.unlock();
    if (left > 0)
      options_.say(
          fmt::format("notifications: {} of them did not reach {} in time", left, target_.name()));
  }

 private:
  void run();
  Result<Unit> deliver(const Notification& notification);
  Result<Unit> run_command(const Notification& notification);
  Result<Unit> post(const Notification& notification);
  TimePoint end() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  bool over() const { return now() >= end(); }

  const NotifyTarget target_;
  const Options& options_;
  bool failure_told_ = false;
  mutable std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::deque<Notification> queue_;
  std::size_t dropped_ = 0;
  bool ending_ = false, done_ = false;
  TimePoint end_ = TimePoint::max();
  std::thread thread_;
};

void EventNotifier::Worker::run() {
  for (;;) {
    Notification next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty() || now() >= end_) {
        done_ = true;
        changed_.notify_all();
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    const auto delivered = deliver(next);
    if (!delivered && !failure_told_)
      options_.say(fmt::format("notification '{}' did not reach {}: {}", to_string(next.event),
                               target_.name(), delivered.error().describe()));
    failure_told_ = !delivered;
  }
}

Result<Unit> EventNotifier::Worker::deliver(const Notification& notification) {
  return target_.command.empty() ? post(notification) : run_command(notification);
}

Result<Unit> EventNotifier::Worker::run_command(const Notification& notification) {
  NotifyCommand command{target_.command, options_.folder, options_.environment,
                        notification_json(notification)};
  for (auto& [name, value] : notification_environment(notification))
    command.environment[name] = value;
  const TimePoint until = now() + kNotifyCommandMax;
  return run_notify_command(command, [this, until] { return std::min(until, end()); });
}

Result<Unit> EventNotifier::Worker::post(const Notification& notification) {
  TRY(const AskHttp ask, load_http_client());
  const std::string body = notification_json(notification);
  WebRequest request{.method = "POST",
                     .url = target_.url,
                     .headers = {"Content-Type: application/json"},
                     .body = body,
                     .timeout = kWebhookTryMax,
                     .cancelled = [this] { return over(); }};
  Duration pause = kWebhookPause;
  for (int tries = 1;; ++tries, pause *= 2) {
    const WebAnswer answer = ask(request);
    if (answer.good()) return Unit{};
    const Error failure = failure_of(answer);
    if (failure.code != Errc::Unavailable || tries == kWebhookTriesMax) return failure;
    std::unique_lock lock(mutex_);
    const TimePoint until = now() + pause;
    changed_.wait_until(lock, until, [&] { return std::min(until, end_) <= now(); });
    if (now() >= end_) return failure;
  }
}

EventNotifier::EventNotifier(std::vector<NotifyTarget> targets, Options options)
    : options_(std::move(options)) {
  for (NotifyTarget& target : targets)
    workers_.push_back(std::make_unique<Worker>(std::move(target), options_));
}

EventNotifier::~EventNotifier() = default;

bool EventNotifier::wants(NotifiedEvent event) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [event](const auto& worker) { return train::wants(worker->target(), event); });
}

void EventNotifier::notify(Notification notification) {
  notification.number = ++count_;
  for (const auto& worker : workers_)
    if (train::wants(worker->target(), notification.event)) worker->add(notification);
}

void EventNotifier::finish(Duration limit) {
  const TimePoint end = now() + limit;
  for (const auto& worker : workers_) worker->end_by(end);
  for (const auto& worker : workers_) worker->wait_for_end();
}

}  // namespace train
