#include "launcher/cluster/sweep/sweep_screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <sstream>

#include "launcher/cluster/sweep/sweep_view.h"
#include "lib/base/print.h"

namespace train {
namespace {

constexpr Duration kDrawEvery = milliseconds(250);
constexpr std::size_t kRowsMax = 12;

int columns_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void SweepScreen::print_event(boost::json::object event) {
  event["time"] = format_utc(std::chrono::system_clock::now());
  print_json(boost::json::serialize(event));
  flush_out();
}

void SweepScreen::draw(const std::string& lasting, bool with_table) {
  std::vector<std::string> lines;
  if (with_table && !search_.trials().empty()) {
    const int columns = columns_of_terminal();
    const SweepTable table = sweep_table_of(search_);
    lines = lines_of(sweep_table(table, {}, kRowsMax, columns));
    if (search_.trials().size() > kRowsMax || search_.running().size() < search_.trials().size())
      lines.pop_back();  // that others are left out
    lines.push_back(terminal_safe(sweep_counts(table)));
    if (const std::string best = sweep_best(table); !best.empty())
      lines.push_back(terminal_safe(best));
  }
  write_screen(stdout, drawn_.draw(lasting, lines, columns_of_terminal()));
  flush_out();
}

void SweepScreen::say(const std::string& line) {
  if (mode_ == OutputMode::Live) return draw(terminal_safe(line) + '\n', true);
  print_out("{}\n", line);
  flush_out();
}

void SweepScreen::began(const std::string& name, const std::string& folder, int at_once,
                        bool resumed) {
  const SearchSpec& spec = search_.spec();
  if (mode_ == OutputMode::Json)
    return print_event({{"event", resumed ? "sweep_resumed" : "sweep_started"},
                        {"sweep", name},
                        {"folder", folder},
                        {"trials", search_.trials_in_all()},
                        {"metric", spec.metric},
                        {"mode", kSearchModes[static_cast<std::size_t>(spec.mode)]}});
  say(fmt::format("{}: {} trials ({}), {} of {} is the best, {} at once{}", name,
                  search_.trials_in_all(), kSearchKinds[static_cast<std::size_t>(spec.search)],
                  kSearchModes[static_cast<std::size_t>(spec.mode)], spec.metric, at_once,
                  resumed ? fmt::format("; {} began earlier", search_.trials().size()) : ""));
  say("folder: " + folder);
}

void SweepScreen::trial_started(int trial) {
  if (mode_ == OutputMode::Json) {
    boost::json::object event = trial_json(search_, trial);
    event["event"] = "trial_started";
    return print_event(std::move(event));
  }
  if (mode_ == OutputMode::Plain)
    say(trial_line({.metric = search_.spec().metric}, sweep_row(search_, trial)));
}

void SweepScreen::trial_exploited(int trial) {
  const TrialExploited& from = *search_.trials()[static_cast<std::size_t>(trial)].from;
  if (mode_ == OutputMode::Json) {
    boost::json::object event = trial_json(search_, trial);
    event["event"] = "trial_exploited";
    return print_event(std::move(event));
  }
  const std::string& time = search_.spec().time_attribute;
  say(fmt::format("trial {} goes on from trial {} at {} {}: {}", trial, from.from,
                  time.empty() ? "report" : time, short_number(from.time),
                  parameters_text(search_.spec(), from.values)));
}

void SweepScreen::trial_ended(int trial) {
  if (mode_ == OutputMode::Json) {
    boost::json::object event = trial_json(search_, trial);
    event["event"] = "trial_ended";
    return print_event(std::move(event));
  }
  const SearchSpec& spec = search_.spec();
  say(trial_line({.metric = spec.metric,
                  .time = spec.time_attribute.empty() ? "report" : spec.time_attribute,
                  .best = search_.best()},
                 sweep_row(search_, trial)));
}

void SweepScreen::refresh(TimePoint now) {
  if (mode_ != OutputMode::Live || now - drawn_at_ < kDrawEvery) return;
  drawn_at_ = now;
  draw("", true);
}

void SweepScreen::warn(const std::string& text) {
  if (mode_ == OutputMode::Live) return draw(terminal_safe("warning: " + text) + '\n', true);
  print_err("train-run: warning: {}\n", text);
}

void SweepScreen::ended(int code, const std::string& cause, const std::string& folder,
                        bool can_be_resumed) {
  const SweepTable table = sweep_table_of(search_);
  if (mode_ == OutputMode::Json) {
    boost::json::object event{
        {"event", "end"}, {"code", code}, {"cause", cause}, {"resumable", can_be_resumed}};
    event["best"] = table.best ? boost::json::value(trial_json(search_, *table.best)) : nullptr;
    return print_event(std::move(event));
  }
  if (mode_ == OutputMode::Live) draw("", false);
  print_out("{}\n", sweep_counts(table));
  if (const std::string best = sweep_best(table); !best.empty())
    print_out("{}\n{}\n", best, folder + "/best");
  if (can_be_resumed)
    print_out("stopped; go on with: train-run resume {}\n", shell_word(folder));
  else if (code != 0)
    print_err("train-run: error: the sweep failed: {}\n", cause);
}

}  // namespace train
