#include "daemon/server/probe.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "daemon/server/storage_mark.h"
#include "lib/base/json_text.h"
#include "lib/base/open_files.h"
#include "lib/base/print.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/within.h"

namespace train {
namespace {

using Tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kLineBytesMax = 1u << 20;
constexpr int kRanksMax = 16'384;
constexpr std::string_view kGreeting = "trainrun-probe";
constexpr Duration kRedial = milliseconds(50);
constexpr int kAtOnce = 256;  // connections to others
constexpr Duration kReachMin = milliseconds(200);
// Of a report: a worker's line may have 8 KiB, and the list of a node that reaches nobody is long.
constexpr std::size_t kListedRanksMax = 200;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);

Error broken(const error_code& error) {
  if (error == asio::error::operation_aborted) return detail::cancelled_error();
  return {Errc::Unavailable, error.message()};
}

/// A connection over which whole lines go.
class Lines {
 public:
  explicit Lines(Tcp::socket connected) : socket_(std::move(connected)), buffer_(kLineBytesMax) {
    error_code ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
  }
  Task<Unit> write(std::string line) {
    line += '\n';
    const auto [error, size] = co_await asio::async_write(socket_, asio::buffer(line), kToTuple);
    if (error) co_return broken(error);
    co_return Unit{};
  }
  Task<std::string> read() {
    const auto [error, size] = co_await asio::async_read_until(socket_, buffer_, '\n', kToTuple);
    if (error) co_return broken(error);
    std::string line(asio::buffers_begin(buffer_.data()),
                     asio::buffers_begin(buffer_.data()) + static_cast<std::ptrdiff_t>(size) - 1);
    buffer_.consume(size);
    co_return line;
  }
  std::string peer() const {
    error_code error;
    const auto remote = socket_.remote_endpoint(error);
    return error ? "" : remote.address().to_string();
  }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Tcp::socket socket_;
  asio::streambuf buffer_;
};

Task<std::unique_ptr<Lines>> connect(asio::any_io_executor executor, std::string host,
                                     std::uint16_t port) {
  Tcp::resolver resolver(executor);
  const auto [unknown, found] =
      co_await resolver.async_resolve(host, fmt::format("{}", port), kToTuple);
  if (unknown) co_return broken(unknown);
  Tcp::socket socket(executor);
  const auto [error, where] = co_await asio::async_connect(socket, found, kToTuple);
  if (error) co_return broken(error);
  co_return std::make_unique<Lines>(std::move(socket));
}

Result<Tcp::acceptor> listen(asio::any_io_executor executor, const std::string& host,
                             std::uint16_t port) {
  error_code error;
  Tcp::endpoint at(Tcp::v6(), port);
  if (!host.empty()) {
    Tcp::resolver resolver(executor);
    const auto found = resolver.resolve(host, fmt::format("{}", port), error);
    if (error || found.empty()) return Error{Errc::InvalidArgument, "resolving " + host};
    at = found.begin()->endpoint();
  }
  Tcp::acceptor acceptor(executor);
  acceptor.open(at.protocol(), error);
  if (error && host.empty()) {  // a machine without IPv6
    at = Tcp::endpoint(Tcp::v4(), port);
    error = {};
    acceptor.open(at.protocol(), error);
  }
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  error_code ignored;
  if (at.protocol() == Tcp::v6() && host.empty())
    acceptor.set_option(asio::ip::v6_only(false), ignored);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Error{Errc::Unavailable, fmt::format("listening: {}", error.message())};
  return acceptor;
}

std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// All ranks by way of rank 0: each says a line, and gets the lines of all.
class Meeting {
 public:
  Meeting(asio::any_io_executor executor, const ProbeOptions& options)
      : executor_(executor),
        options_(options),
        links_(static_cast<std::size_t>(options.world_size)) {}

  /// Rank 0 waits for the others, the others look for rank 0.
  Task<Unit> open() {
    auto opening = options_.rank == 0 ? wait_for_all() : join();
    co_return co_await std::move(opening);
  }
  /// Return the lines by rank; nothing for a rank that is absent.
  Task<std::vector<std::optional<std::string>>> gather(std::string mine) {
    auto gathering =
        options_.rank == 0 ? gather_here(std::move(mine)) : gather_there(std::move(mine));
    co_return co_await std::move(gathering);
  }
  /// Return the address at which rank 0 sees a rank.
  std::string address(int rank) const {
    const auto& link = links_[static_cast<std::size_t>(rank)];
    return rank == 0 ? options_.master_addr : link ? link->peer() : "";
  }
  std::optional<double> clock_ms, clock_within_ms;  // of all ranks but 0

 private:
  Task<Unit> wait_for_all() {
    auto listening = listen(executor_, options_.master_addr, options_.master_port);
    if (listening.has_error()) co_return listening.error();
    Tcp::acceptor acceptor = std::move(*listening);
    const TimePoint until = std::chrono::steady_clock::now() + options_.limit;
    for (int come = 1; come < options_.world_size;) {
      auto accepting = accept(acceptor);
      const auto rank =
          co_await within(until - std::chrono::steady_clock::now(), std::move(accepting));
      if (rank.has_error()) break;  // whoever has not come by now is absent
      come += *rank ? 1 : 0;
    }
    co_return Unit{};
  }
  /// Accept one, tell it the time, and return whether it is a rank that has not come before.
  Task<bool> accept(Tcp::acceptor& acceptor) {
    auto [error, socket] = co_await acceptor.async_accept(kToTuple);
    if (error == asio::error::operation_aborted) co_return detail::cancelled_error();
    if (error) co_return false;
    auto link = std::make_unique<Lines>(std::move(socket));
    auto reading = link->read();
    const auto hello = co_await within(seconds(1), std::move(reading));
    if (hello.has_error()) co_return false;
    std::istringstream words(*hello);
    std::string greeting, mark;
    int rank = -1;
    words >> greeting >> mark >> rank;
    if (greeting != kGreeting || mark != options_.mark || rank < 1 || rank >= options_.world_size ||
        links_[static_cast<std::size_t>(rank)])
      co_return false;
    auto writing = link->write(fmt::format("{}", wall_us()));
    const auto told = co_await within(seconds(1), std::move(writing));
    if (told.has_error()) co_return false;
    links_[static_cast<std::size_t>(rank)] = std::move(link);
    co_return true;
  }
  Task<Unit> join() {
    const TimePoint until = std::chrono::steady_clock::now() + options_.limit;
    Error last{Errc::Timeout, "no answer"};
    for (;;) {
      const Duration left = until - std::chrono::steady_clock::now();
      if (left <= Duration{0}) break;
      auto connecting = connect(executor_, options_.master_addr, options_.master_port);
      auto link = co_await within(left, std::move(connecting));
      if (link.has_value()) {
        auto greeting = greet(**link);
        const auto greeted = co_await within(options_.limit, std::move(greeting));
        if (greeted.has_value()) {
          links_[0] = std::move(*link);
          co_return Unit{};
        }
        last = greeted.error();
      } else {
        last = link.error();
      }
      const auto woken = co_await pause_for(kRedial);
      if (woken.has_error()) co_return woken.error();
    }
    co_return std::move(last).with_context(
        fmt::format("rank 0 at {}:{}", options_.master_addr, options_.master_port));
  }
  Task<Unit> greet(Lines& link) {
    const std::int64_t before = wall_us();
    auto writing = link.write(fmt::format("{} {} {}", kGreeting, options_.mark, options_.rank));
    CO_TRY_VOID(co_await std::move(writing));
    auto reading = link.read();
    CO_TRY(const std::string answer, co_await std::move(reading));
    const std::int64_t after = wall_us();
    const auto there = number<std::int64_t>(answer);
    if (!there) co_return Error{Errc::Protocol, "what listens there is no probe"};
    const auto half = static_cast<double>(after - before) / 2;
    clock_ms = (static_cast<double>(before - *there) + half) / 1000;
    clock_within_ms = half / 1000;
    co_return Unit{};
  }

  using LinesByRank = std::vector<std::optional<std::string>>;
  Task<LinesByRank> gather_here(std::string mine) {
    LinesByRank lines(links_.size());
    lines[0] = std::move(mine);
    const TimePoint until = std::chrono::steady_clock::now() + 2 * options_.limit;
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      if (!links_[rank]) continue;
      auto reading = links_[rank]->read();
      auto line = co_await within(until - std::chrono::steady_clock::now(), std::move(reading));
      if (line.has_value())
        lines[rank] = std::move(*line);
      else
        links_[rank].reset();
    }
    // "1 LINE" for one that is there; lines have no tabs.
    std::string all;
    for (const auto& line : lines) all += line ? "1" + *line + "\t" : "0\t";
    // All at once: one that does not read takes nobody else's time.
    const auto tell = [this, &all](Lines* link) -> asio::awaitable<void> {
      auto writing = link->write(all);
      (void)co_await within(options_.limit, std::move(writing));
    };
    Scope scope(executor_);
    for (const auto& link : links_)
      if (link) scope.spawn("tell", tell(link.get()));
    co_await scope.join();
    co_return lines;
  }
  Task<LinesByRank> gather_there(std::string mine) {
    auto writing = links_[0]->write(std::move(mine));
    CO_TRY_VOID(co_await std::move(writing));
    auto reading = links_[0]->read();
    CO_TRY(const std::string all, co_await within(4 * options_.limit, std::move(reading)));
    LinesByRank lines;
    for (std::string_view rest = all; !rest.empty() && lines.size() < links_.size();) {
      const std::string_view line = rest.substr(0, rest.find('\t'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.starts_with('1'))
        lines.emplace_back(line.substr(1));
      else
        lines.emplace_back();
    }
    lines.resize(links_.size());
    co_return lines;
  }

  asio::any_io_executor executor_;
  const ProbeOptions& options_;
  std::vector<std::unique_ptr<Lines>> links_;  // by rank: of rank 0 to all, of others to rank 0
};

/// Answers whoever connects, so that others see that they reach us.
asio::awaitable<void> answer_all(Tcp::acceptor* acceptor, Scope* scope, std::string mark) {
  const auto answer = [](std::unique_ptr<Lines> link,
                         std::string expected) -> asio::awaitable<void> {
    auto reading = link->read();
    const auto word = co_await within(seconds(1), std::move(reading));
    if (word.has_error() || *word != expected) co_return;
    auto writing = link->write("here");
    (void)co_await within(seconds(1), std::move(writing));
  };
  for (;;) {
    auto [error, socket] = co_await acceptor->async_accept(kToTuple);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      const auto woken = co_await pause_for(kRedial);
      if (!woken) co_return;
      continue;
    }
    scope->spawn("answer", answer(std::make_unique<Lines>(std::move(socket)), mark));
  }
}

Task<Unit> reach(asio::any_io_executor executor, std::string address, std::uint16_t port,
                 std::string mark) {
  auto connecting = connect(executor, std::move(address), port);
  CO_TRY(const auto link, co_await std::move(connecting));
  auto writing = link->write(mark);
  CO_TRY_VOID(co_await std::move(writing));
  auto reading = link->read();
  CO_TRY(const std::string word, co_await std::move(reading));
  if (word != "here") co_return Error{Errc::Protocol, "somebody else answers"};
  co_return Unit{};
}

struct Place {
  std::string address;
  std::uint16_t port = 0;
};

/// Parse "PORT ADDRESS", which rank 0 has completed.
std::optional<Place> place_in(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  Place place;
  words >> place.port >> place.address;
  return words.fail() ? std::nullopt : std::optional(place);
}

class Probe {
 public:
  Probe(asio::any_io_executor executor, const ProbeOptions& options, ProbeReport& report)
      : executor_(executor), options_(options), report_(report), meeting_(executor, options) {}

  Task<Unit> run() {
    auto opening = meeting_.open();
    CO_TRY_VOID(co_await std::move(opening));
    report_.clock_ms = options_.rank == 0 ? 0 : meeting_.clock_ms;
    report_.clock_within_ms = options_.rank == 0 ? 0 : meeting_.clock_within_ms;
    auto connecting = connect_to_all();
    CO_TRY_VOID(co_await std::move(connecting));
    auto adding = add_up();
    CO_TRY_VOID(co_await std::move(adding));
    auto looking = look_at_storage();
    co_return co_await std::move(looking);
  }

 private:
  Task<Unit> connect_to_all() {
    auto listening = listen(executor_, "", 0);
    if (listening.has_error()) co_return listening.error();
    Tcp::acceptor acceptor = std::move(*listening);
    Scope scope(executor_);
    scope.spawn("answer all", answer_all(&acceptor, &scope, options_.mark));
    auto trying = try_all(acceptor.local_endpoint().port());
    const auto tried = co_await std::move(trying);
    scope.cancel();
    co_await scope.join();
    co_return tried;
  }
  Task<Unit> try_all(std::uint16_t port) {
    auto gathering = meeting_.gather(fmt::format("{}", port));
    CO_TRY(const auto ports, co_await std::move(gathering));
    std::string table;  // the addresses, which only rank 0 knows: the others send nothing
    for (int rank = 0; options_.rank == 0 && rank < options_.world_size; ++rank)
      table += address_or_dash(rank) + " ";
    auto telling = meeting_.gather(table);
    CO_TRY(const auto tables, co_await std::move(telling));
    std::istringstream addresses(tables[0].value_or(""));
    std::vector<std::pair<int, Place>> others;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      std::string address;
      addresses >> address;
      const auto& line = ports[static_cast<std::size_t>(rank)];
      const auto place = line ? place_in(*line + " " + address) : std::nullopt;
      if (!place || place->address == "-") {
        report_.absent.push_back(rank);
        continue;
      }
      if (rank != options_.rank) others.emplace_back(rank, *place);
    }
    auto reaching = reach_all(others);
    CO_TRY_VOID(co_await std::move(reaching));
    // Others may still want an answer.
    auto ending = meeting_.gather("");
    const auto ended = co_await std::move(ending);
    if (ended.has_error()) co_return ended.error();
    co_return Unit{};
  }
  /// Try to connect to each, many at once. Ends within the limit, so that the others, who do the
  /// same, do not lose patience.
  Task<Unit> reach_all(const std::vector<std::pair<int, Place>>& others) {
    const TimePoint until = std::chrono::steady_clock::now() + options_.limit;
    const auto rounds = static_cast<int>(others.size()) / kAtOnce + 1;
    const Duration each = std::max<Duration>(options_.limit / rounds, kReachMin);
    std::size_t next = 0;
    bool cancelled = false;
    const auto reach_some = [&]() -> asio::awaitable<void> {
      while (next < others.size() && !cancelled) {
        const auto& [rank, place] = others[next++];
        const Duration left = until - std::chrono::steady_clock::now();
        auto reaching = reach(executor_, place.address, place.port, options_.mark);
        const auto reached = co_await within(std::min(each, left), std::move(reaching));
        if (reached.has_error()) report_.unreachable.push_back(rank);
        cancelled = reached.has_error() && reached.error().code == Errc::Cancelled;
      }
    };
    Scope scope(executor_);
    for (int i = 0; i < std::min<int>(kAtOnce, static_cast<int>(others.size())); ++i)
      scope.spawn("reach", reach_some());
    co_await scope.join();
    std::sort(report_.unreachable.begin(), report_.unreachable.end());
    if (cancelled) co_return detail::cancelled_error();
    co_return Unit{};
  }
  std::string address_or_dash(int rank) const {
    const std::string address = meeting_.address(rank);
    return address.empty() ? "-" : address;
  }

  Task<Unit> add_up() {
    const TimePoint began = std::chrono::steady_clock::now();
    auto gathering = meeting_.gather(fmt::format("{}", options_.rank + 1));
    CO_TRY(const auto numbers, co_await std::move(gathering));
    std::int64_t sum = 0, wanted = 0;
    for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
      if (!numbers[rank]) continue;
      sum += number<std::int64_t>(*numbers[rank]).value_or(0);
      wanted += static_cast<std::int64_t>(rank) + 1;
    }
    const Duration took = std::chrono::steady_clock::now() - began;
    if (sum == wanted) report_.sum_ms = std::chrono::duration<double, std::milli>(took).count();
    co_return Unit{};
  }

  Task<Unit> look_at_storage() {
    if (options_.storage.empty()) co_return Unit{};
    StorageMark mark(options_.storage, options_.mark, options_.rank);
    report_.storage_error = mark.write();
    auto writing = meeting_.gather(report_.storage_error.empty() ? "written" : "");
    CO_TRY(const auto written, co_await std::move(writing));
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      const int other = static_cast<int>(rank);
      if (!written[rank] || *written[rank] != "written") continue;
      if (!mark.sees(other)) report_.storage_missing.push_back(other);
    }
    auto looking = meeting_.gather("");
    CO_TRY_VOID(co_await std::move(looking));
    mark.remove_file();
    auto removing = meeting_.gather("");
    (void)co_await std::move(removing);
    co_return Unit{};
  }

  asio::any_io_executor executor_;
  const ProbeOptions& options_;
  ProbeReport& report_;
  Meeting meeting_;
};

}  // namespace

std::string to_json(const ProbeReport& report) {
  JsonWriter json;
  const auto ranks = [&](const char* key, const std::vector<int>& list) {
    json.key(key).array();
    for (std::size_t i = 0; i < std::min(list.size(), kListedRanksMax); ++i) json.value(list[i]);
    json.end();
    if (list.size() > kListedRanksMax)
      json.key(fmt::format("{}_in_all", key)).value(static_cast<std::int64_t>(list.size()));
  };
  const auto known = [&](const char* key, const std::optional<double>& value) {
    if (value) json.key(key).value(*value);
  };
  json.object().key("probe").value(1).key("rank").value(report.rank);
  if (!report.error.empty()) json.key("error").value(report.error);
  ranks("absent", report.absent);
  ranks("unreachable", report.unreachable);
  known("clock_ms", report.clock_ms);
  known("clock_within_ms", report.clock_within_ms);
  known("sum_ms", report.sum_ms);
  json.key("locked_memory").value(report.locked_memory);
  if (!report.storage_error.empty()) json.key("storage_error").value(report.storage_error);
  ranks("storage_missing", report.storage_missing);
  json.end();
  return std::move(json).take();
}

ProbeReport probe(const ProbeOptions& options) {
  ProbeReport report{.rank = options.rank};
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    report.locked_memory = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  asio::io_context context;
  Probe running(context.get_executor(), options, report);
  Scope scope(context.get_executor());
  const auto run = [](Probe* all, ProbeReport* result,
                      asio::signal_set* signals) -> asio::awaitable<void> {
    auto steps = all->run();
    const auto done = co_await std::move(steps);
    if (done.has_error()) result->error = done.error().message;
    signals->cancel();
  };
  asio::signal_set signals(context);
  scope.spawn("probe", run(&running, &report, &signals));
  if (options.ends_on_sigterm) {
    error_code ignored;
    signals.add(SIGTERM, ignored);
    signals.async_wait([&scope](const error_code& error, int) {
      if (!error) scope.cancel();
    });
  }
  context.run();
  return report;
}

int run_probe(const std::string& storage) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  ProbeOptions options;
  const auto rank = number<int>(variable("RANK")), size = number<int>(variable("WORLD_SIZE"));
  const auto port = number<std::uint16_t>(variable("MASTER_PORT"));
  options.master_addr = variable("MASTER_ADDR");
  options.mark = variable("TRAINRUN_RUN_ID");
  if (!rank || !size || !port || *size < 1 || *size > kRanksMax || *rank < 0 || *rank >= *size ||
      options.master_addr.empty() || options.mark.empty() ||
      options.mark.find_first_of("/ \t\n") != std::string::npos) {
    print_error("traind", {Errc::InvalidArgument, "this is no worker of train-run check"});
    return 64;
  }
  options.rank = *rank;
  options.world_size = *size;
  options.master_port = *port;
  options.storage = storage;
  options.ends_on_sigterm = true;
  raise_open_files();  // rank 0 has a connection to each
  print_out("{}\n", to_json(probe(options)));
  return 0;
}

}  // namespace train
