#include "launcher/cluster/groups/groups_screen.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "lib/base/print.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::size_t kBegunBytesMax = 64u << 10;  // of a line

void print_event(boost::json::object event) {
  event["time"] = format_utc(std::chrono::system_clock::now());
  print_json(boost::json::serialize(event));
  flush_out();
}

/// Return whether the news is that something went wrong.
bool is_trouble(GroupNews news) {
  switch (news) {
    case GroupNews::Resumed:
    case GroupNews::Failed:
    case GroupNews::Stopped:
    case GroupNews::Restarts:
    case GroupNews::Left:
    case GroupNews::Lighthouse:
    case GroupNews::Stopping:
      return true;
    case GroupNews::Started:
    case GroupNews::Finished:
      break;
  }
  return false;
}

}  // namespace

void GroupsScreen::began(const std::string& name, const std::string& folder, int groups, int left,
                         const std::string& lighthouse) {
  if (json_)
    return print_event({{"event", "groups_started"},
                        {"run", name},
                        {"folder", folder},
                        {"replica_groups", groups},
                        {"to_run", left},
                        {"lighthouse", lighthouse}});
  print_out("{}: {} replica groups{}{}\nfolder: {}\n", name, groups,
            left == groups ? "" : fmt::format(", {} of which have finished", groups - left),
            lighthouse.empty() ? "" : "; lighthouse " + lighthouse, folder);
  flush_out();
}

void GroupsScreen::tell(const TellGroups& news) {
  if (json_) {
    boost::json::object event{{"event", kGroupNews[static_cast<std::size_t>(news.news)]}};
    if (news.group >= 0) event["group"] = news.group;
    event["text"] = news.text;
    return print_event(std::move(event));
  }
  if (news.news == GroupNews::Restarts && news.group == 0) return;  // it says so itself
  const std::string who = news.group >= 0 ? fmt::format("group {}: ", news.group) : "";
  if (is_trouble(news.news)) return warn(who + news.text);
  print_out("{}{}\n", who, news.text);
  flush_out();
}

void GroupsScreen::warn(const std::string& text) { print_err("train-run: warning: {}\n", text); }

void GroupsScreen::pass_on(std::string_view text) {
  begun_ += text;
  const std::size_t end = begun_.size() > kBegunBytesMax ? begun_.size() : begun_.rfind('\n') + 1;
  if (end == 0) return;
  print_out("{}", Lines{std::string_view(begun_).substr(0, end)});
  flush_out();
  begun_.erase(0, end);
}

void GroupsScreen::ended(const EndGroups& end, const std::string& folder, bool can_be_resumed) {
  if (json_) {
    boost::json::object event{
        {"event", "end"}, {"code", end.code}, {"cause", end.cause}, {"resumable", can_be_resumed}};
    if (end.group >= 0) event["group"] = end.group;
    return print_event(std::move(event));
  }
  if (end.code == 0) return print_out("all replica groups have finished\n");
  if (!end.cause.empty()) print_err("train-run: error: {}\n", end.cause);
  if (end.group >= 0)
    print_err("train-run: its output: train-run logs {}\n",
              shell_word(fmt::format("{}/{}", folder, end.group)));
  if (can_be_resumed) print_out("stopped; go on with: train-run resume {}\n", shell_word(folder));
}

}  // namespace train
