// A worker that serves functions. train_loop_config.mode: "poll" only does what it is called for;
// "report" reports until it is told to stop; "silent" does neither.
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const int rank = train::get_context().world_rank();
    std::int64_t total = 0;
    if (const auto checkpoint = train::get_checkpoint())
      total = checkpoint->to_value().as<train::Dict>().at("total").as<std::int64_t>();
    std::printf("begins with %lld\n", static_cast<long long>(total));
    train::on_stop([&] { return train::Checkpoint::from_json(train::Dict{{"total", total}}); });
    train::serve("add", [&](const train::Value& argument) {
      total += argument.as<std::int64_t>();
      train::report({{"total", total}},
                    train::Checkpoint::from_json(train::Dict{{"total", total}}));
      return train::Value(total);
    });
    train::serve("ranks", [&](const train::Value&) {  // all ranks take part
      return train::Value(train::all_gather(train::Value(rank)));
    });
    train::serve("fail", [&](const train::Value&) -> train::Value {
      throw std::invalid_argument("no layer of this name");
    });
    train::serve(
        "pid", [](const train::Value&) { return train::Value(::getpid()); },
        train::ServeWhen::AtOnce);
    train::serve("hang", [](const train::Value&) -> train::Value {
      std::this_thread::sleep_for(std::chrono::hours(1));
      return {};
    });
    train::report({{"ready", 1}});
    const std::string mode = config.get<std::string>("mode");
    if (mode == "silent") std::this_thread::sleep_for(std::chrono::hours(1));
    while (mode == "poll") train::poll(std::chrono::hours(1));
    while (mode == "report") {
      train::report({{"total", total}});
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}
