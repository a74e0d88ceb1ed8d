// Reads each kind of value that is more than one plain scalar, for section_reader. Other readers of
// the spec use parts of it.
#pragma once

#include <functional>

#include "launcher/spec/field.h"
#include "launcher/spec/reading.h"

namespace train::spec {

/// Read a text and replace `${…}` in it. Remember which variables supplied it.
std::optional<std::string> read_interpolated(Reading& reading, const yaml::Cursor& cursor);
std::optional<std::string> read_name(Reading& reading, const yaml::Cursor& cursor);
/// Replace the ~ of a path that begins with ~/ by the home folder. Return false, with an error, for
/// another user's home, or if there is none.
bool expand_home(const Reading& reading, const yaml::Cursor& cursor, std::string& path);
/// Read a path and make it absolute, without "." and "..". Relative paths start at the folder of
/// the file that contains them.
std::optional<std::string> read_path(Reading& reading, const yaml::Cursor& cursor);
/// Read one path, or a list of them.
void read_paths(Reading& reading, const yaml::Cursor& cursor, std::vector<std::string>& paths);
std::optional<std::string> read_storage(Reading& reading, const yaml::Cursor& cursor);
void read_command(Reading& reading, const yaml::Cursor& cursor, std::vector<std::string>& argv);
/// Read a list of commands.
void read_commands(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                   std::vector<std::vector<std::string>>& commands);
/// Read a command that no shell may read.
void read_argv(Reading& reading, const yaml::Cursor& cursor, std::string_view example,
               std::vector<std::string>& argv);
void read_environment(Reading& reading, const yaml::Cursor& cursor,
                      std::map<std::string, std::string>& env);
/// If `value` refers to a secret (secrets.h), check the reference, and make its path absolute.
void read_reference(Reading& reading, const yaml::Cursor& cursor, std::string& value);
/// Return a scalar with its type in YAML 1.2; null after a mistake.
boost::json::value scalar_to_json(const yaml::Cursor& cursor);
/// Return any value as JSON. Remember where it comes from, for the printed spec.
boost::json::value read_value(Reading& reading, const yaml::Cursor& cursor);
void read_free(Reading& reading, const yaml::Cursor& cursor, boost::json::object& object);
void read_items(Reading& reading, const yaml::Cursor& cursor, boost::json::array& items);
/// Read a TextList or a ChoiceList.
void read_list(const yaml::Cursor& cursor, const Field& field, std::vector<std::string>& list);
void read_nodes(Reading& reading, const yaml::Cursor& cursor, std::vector<std::string>& nodes);
void read_count(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                WorkerCount& count);
void read_resources(Reading& reading, const yaml::Cursor& cursor, Resources& resources);
void read_stop(Reading& reading, const yaml::Cursor& cursor, std::vector<StopCondition>& stop);
void read_callbacks(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                    RunConfig& config);
void read_notify(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                 std::vector<NotifyRule>& rules);
void read_types(Reading& reading, const yaml::Cursor& cursor,
                std::map<std::string, std::string>& types);
void read_durations(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                    std::map<std::string, Duration>& durations);
void read_labels(Reading& reading, const yaml::Cursor& cursor,
                 std::vector<LabelSelector>& selectors);
void read_ship(Reading& reading, const yaml::Cursor& cursor, ShipConfig& ship);
/// Read the list of roles. `read_at`: reads a value as that of another key of the spec, "command".
using ReadAt = std::function<void(std::string_view path, const yaml::Position& key_at,
                                  const yaml::Cursor& value)>;
void read_roles(Reading& reading, const yaml::Cursor& cursor, ScalingConfig& scaling,
                const ReadAt& read_at);
void read_gpus(Reading& reading, const yaml::Cursor& cursor, std::vector<std::string>& gpus);
void read_umask(const yaml::Cursor& cursor, Umask& umask);
void read_limits(Reading& reading, const yaml::Cursor& cursor, ResourceLimits& limits);
void read_shuffle(Reading& reading, const yaml::Cursor& cursor, DatasetSpec& dataset);
void read_sides(const yaml::Cursor& cursor, const Field& field, std::optional<ImageSides>& sides);
void read_maps(Reading& reading, const yaml::Cursor& cursor, const Field& field,
               DatasetSpec& dataset);
void read_mix(Reading& reading, const yaml::Cursor& cursor, const Field& field,
              std::map<std::string, double>& mix);
void read_preprocessors(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                        DatasetSpec& dataset);
void read_on_error(Reading& reading, const yaml::Cursor& cursor, const Field& field,
                   DatasetSpec& dataset);
void read_filter(const yaml::Cursor& cursor, std::string& filter);

/// Add the programs that the variable TRAINRUN_CALLBACKS names to run_config.callbacks.
void read_callbacks_variable(Reading& reading, JobSpec& spec);

/// Return what is wrong with an address "host:port" or "[v6]:port", or "" if nothing is.
std::string node_address_mistake(std::string_view address);

}  // namespace train::spec
