// Makes the JSON Schema from the table of fields.
#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "launcher/spec/fields.h"
#include "launcher/spec/job_spec_parser.h"
#include "launcher/spec/spec_values.h"
#include "launcher/spec/sweep_reader.h"
#include "lib/model/column_type.h"
#include "lib/model/preprocessors.h"

namespace train {
namespace {

namespace json = boost::json;
using spec::Field;
using spec::Kind;

constexpr std::string_view kDurationPattern = R"(^[0-9]+(\.[0-9]{1,6})?(ms|s|m|h|d)$)";
constexpr std::string_view kSizePattern =
    R"(^[0-9]+(\.[0-9]{1,6})?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$)";
constexpr std::string_view kWebhookPattern = R"(^(https?://[^/]|env:.|file:.|.*\$\{.*\}))";

json::object type(std::string_view name) { return {{"type", json::string(name)}}; }
json::object text_type() { return {{"type", "string"}, {"minLength", 1}}; }
json::object closed(json::object properties) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}
json::object list_of(json::object items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"uniqueItems", true}};
}
json::object one_of(json::array options) { return {{"oneOf", std::move(options)}}; }
json::object path_schema() {
  return {{"type", "string"}, {"minLength", 1}, {"not", {{"pattern", "^[a-z0-9+]+://"}}}};
}
/// Of the files of a dataset, which may be patterns.
json::object data_path_schema() {
  return {{"type", "string"},
          {"minLength", 1},
          {"not", {{"pattern", R"(^(?!(s3|gs)://[^/*?\[{]|hdfs://[^/*?\[]*/)[a-z0-9+]+://)"}}}};
}

json::object enumeration(std::span<const std::string_view> choices) {
  json::array words;
  for (const std::string_view choice : choices) words.emplace_back(choice);
  return {{"enum", std::move(words)}};
}
json::object whole(std::int64_t min, std::int64_t max) {
  return {{"type", "integer"}, {"minimum", min}, {"maximum", max}};
}
json::object at_least_zero() { return {{"type", "number"}, {"minimum", 0}}; }

json::object section_schema(std::string_view section);

json::object count_schema(const Field& field) {
  const json::value end = whole(std::max<std::int64_t>(field.min, 1), field.max);
  json::object range = closed({{"min", end}, {"max", end}});
  range["required"] = json::array{"min", "max"};
  json::array options{whole(field.min, field.max), std::move(range)};
  if (!field.choices.empty()) options.push_back(enumeration(field.choices));
  return one_of(std::move(options));
}

json::object size_type() {
  return one_of({json::object{{"type", "string"}, {"pattern", kSizePattern}},
                 whole(0, std::numeric_limits<std::int64_t>::max())});
}

json::object resources_schema() {
  return {{"type", "object"},
          {"properties",
           {{"CPU", at_least_zero()},
            {"GPU",
             one_of({whole(0, std::numeric_limits<int>::max()),
                     json::object{
                         {"type", "number"}, {"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}}})},
            {"memory", size_type()}}},
          {"propertyNames",
           {{"pattern", spec::kNamePattern},
            {"not", enumeration(std::array<std::string_view, 6>{"cpu", "Cpu", "gpu", "Gpu",
                                                                "MEMORY", "Memory"})}}},
          {"additionalProperties", at_least_zero()}};
}

/// Of ingest workers, which claim nothing else.
json::object ingest_resources_schema() {
  return closed({{"CPU", at_least_zero()}, {"memory", size_type()}});
}

json::object environment_schema() {
  json::array reserved;
  for (const std::string_view name : spec::reserved_environment()) reserved.emplace_back(name);
  return {{"type", "object"},
          {"propertyNames",
           {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}, {"not", {{"enum", std::move(reserved)}}}}},
          {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
}

json::object command_schema() {
  json::object list{
      {"type", "array"}, {"minItems", 1}, {"items", {{"type", {"string", "number", "boolean"}}}}};
  return one_of({std::move(list), text_type()});
}

json::object commands_schema(const Field& field) {
  return {{"type", "array"}, {"maxItems", field.max}, {"items", command_schema()}};
}

json::object callbacks_schema(const Field& field) {
  json::object program =
      closed({{"command", command_schema().at("oneOf").as_array()[0].as_object()}});
  program["required"] = json::array{"command"};
  return list_of(one_of({enumeration(field.choices), std::move(program)}));
}

json::object notify_schema(const Field& field) {
  json::object list = command_schema().at("oneOf").as_array()[0].as_object();
  json::object on = list_of(enumeration(field.choices));
  on["minItems"] = 1;
  json::object rule = closed({{"on", std::move(on)},
                              {"command", std::move(list)},
                              {"webhook", {{"type", "string"}, {"pattern", kWebhookPattern}}}});
  rule["oneOf"] =
      json::array{json::object{{"required", {"command"}}}, json::object{{"required", {"webhook"}}}};
  return {{"type", "array"}, {"maxItems", field.max}, {"items", std::move(rule)}};
}

const Field& num_workers() {
  const auto all = spec::fields();
  return *std::find_if(all.begin(), all.end(), [](const Field& field) {
    return field.path == "scaling_config.num_workers";
  });
}

json::object selector_schema() {
  return {{"type", "object"}, {"additionalProperties", text_type()}};
}

json::object roles_schema(const Field& field) {
  json::object role = closed({{"name", text_type()},
                              {"command", command_schema()},
                              {"num_workers", count_schema(num_workers())},
                              {"use_gpu", type("boolean")},
                              {"resources_per_worker", resources_schema()},
                              {"env", environment_schema()},
                              {"label_selector", selector_schema()}});
  return {{"type", "array"}, {"maxItems", field.max}, {"items", std::move(role)}};
}

json::object limits_schema() {
  json::object limits;
  for (const std::string_view name : spec::limit_names())
    limits[name] = one_of({whole(0, std::numeric_limits<std::int64_t>::max()),
                           enumeration(std::array<std::string_view, 1>{"unlimited"})});
  return closed(std::move(limits));
}

json::object sides_schema(std::int64_t min, std::int64_t max) {
  return {{"type", "array"}, {"items", whole(min, max)}, {"minItems", 2}, {"maxItems", 2}};
}

json::object argument_schema(const MapArgument& argument) {
  const auto min = static_cast<std::int64_t>(argument.min);
  const auto max = static_cast<std::int64_t>(argument.max);
  json::object number{{"type", "number"}, {"minimum", argument.min}, {"maximum", argument.max}};
  switch (argument.kind) {
    case MapArgumentKind::Column:
      return text_type();
    case MapArgumentKind::Columns: {
      json::object list = list_of(text_type());
      list["minItems"] = min;
      list["maxItems"] = max;
      return list;
    }
    case MapArgumentKind::Scalar:
      return {{"type", {"number", "string", "boolean"}}};
    case MapArgumentKind::Sides:
      return sides_schema(min, max);
    case MapArgumentKind::Choice:
      return enumeration(argument.choices);
    case MapArgumentKind::Integer:
      return whole(min, max);
    case MapArgumentKind::Number:
      return number;
    case MapArgumentKind::Numbers:
      return {{"type", "array"}, {"items", number}, {"minItems", 1}, {"maxItems", kMapNumbersMax}};
  }
  return {};
}

/// Return the schema of {name: arguments}, for the maps or preprocessors of a table.
json::object arguments_schemas(std::span<const BuiltInMap> table) {
  json::object schemas;
  for (const BuiltInMap& map : table) {
    json::object arguments;
    json::array required;
    for (const MapArgument& argument : map.arguments) {
      arguments[argument.name] = argument_schema(argument);
      if (argument.required) required.emplace_back(argument.name);
    }
    json::object schema = closed(std::move(arguments));
    if (!required.empty()) schema["required"] = std::move(required);
    schemas[map.name] = std::move(schema);
  }
  return schemas;
}

json::object maps_schema(const Field& field) {
  json::object built_in = arguments_schemas(kBuiltInMaps);
  const json::object name{{"type", "string"}, {"pattern", spec::kNamePattern}};
  const json::object with_arguments{{"type", "object"},
                                    {"minProperties", 1},
                                    {"maxProperties", 1},
                                    {"properties", std::move(built_in)},
                                    {"propertyNames", {{"pattern", spec::kNamePattern}}},
                                    {"additionalProperties", {{"type", {"object", "null"}}}}};
  const json::object list{
      {"type", "array"}, {"maxItems", field.max}, {"items", one_of({name, with_arguments})}};
  json::object from = closed({{"from", text_type()}, {"without", list_of(text_type())}});
  from["required"] = json::array{"from"};
  return one_of({list, std::move(from)});
}

json::object preprocessors_schema(const Field& field) {
  json::object all = arguments_schemas(kPreprocessors);
  const json::object columns = list_of(text_type());
  for (auto& [name, schema] : all) {
    if (name != "concatenator") schema = one_of({columns, schema.as_object()});
  }
  json::object one = closed(std::move(all));
  one["minProperties"] = 1;
  one["maxProperties"] = 1;
  json::object from = closed({{"from", text_type()}});
  from["required"] = json::array{"from"};
  return one_of(
      {json::object{{"type", "array"}, {"maxItems", field.max}, {"items", std::move(one)}},
       std::move(from)});
}

json::object on_error_schema(const Field& field) {
  json::object skip = closed({{"rows", enumeration(std::array<std::string_view, 1>{"skip"})},
                              {"rows_max", whole(field.min, field.max)}});
  skip["required"] = json::array{"rows", "rows_max"};
  return one_of({enumeration(std::array<std::string_view, 1>{"fail"}), std::move(skip)});
}

/// Return the schema of what a kind takes, without description and default.
json::object kind_schema(const Field& field) {
  switch (field.kind) {
    case Kind::Section:
      return section_schema(field.path);
    case Kind::Entries:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", spec::kNamePattern}}},
              {"additionalProperties", section_schema(fmt::format("{}.*", field.path))}};
    case Kind::Version:
      return {{"const", 1}};
    case Kind::Extends:
      return text_type();
    case Kind::Text: {
      json::object text = text_type();
      if (field.max < std::numeric_limits<int>::max()) text["maxLength"] = field.max;
      return text;
    }
    case Kind::Name:
      return {{"type", "string"},
              {"pattern", R"(^([A-Za-z0-9][A-Za-z0-9._-]{0,127}|.*\$\{.*\}.*)$)"}};
    case Kind::Path:
      return path_schema();
    case Kind::Paths: {
      json::object list = list_of(data_path_schema());
      list["minItems"] = 1;
      return one_of({data_path_schema(), std::move(list)});
    }
    case Kind::Storage:
      return {{"type", "string"},
              {"minLength", 1},
              {"not", {{"pattern", "^(?!(s3|gs)://[^/?#]|hdfs://[^/?#]*/)[a-z0-9+]+://"}}}};
    case Kind::Command:
      return command_schema();
    case Kind::Commands:
      return commands_schema(field);
    case Kind::Environment:
      return environment_schema();
    case Kind::Free:
      return type("object");
    case Kind::Items:
      return {{"type", "array"}, {"items", type("object")}};
    case Kind::Choice:
      return enumeration(field.choices);
    case Kind::ChoiceList:
      return list_of(enumeration(field.choices));
    case Kind::TextList:
      return list_of(text_type());
    case Kind::Nodes:
      return list_of({{"type", "string"}, {"pattern", R"(:[0-9]{1,5}$|^unix:/.|^ssh:.|\$\{.*\})"}});
    case Kind::Integer:
      return whole(field.min, field.max);
    case Kind::Boolean:
      return type("boolean");
    case Kind::Duration:
      return {{"type", "string"}, {"pattern", kDurationPattern}};
    case Kind::Count:
      return count_schema(field);
    case Kind::Resources:
      return field.path.starts_with("dataset_config.") ? ingest_resources_schema()
                                                       : resources_schema();
    case Kind::Stop:
      return {{"type", "object"}, {"additionalProperties", type("number")}};
    case Kind::Callbacks:
      return callbacks_schema(field);
    case Kind::Notify:
      return notify_schema(field);
    case Kind::Types:
      return {{"type", "object"}, {"additionalProperties", enumeration(kColumnTypes)}};
    case Kind::Durations:
      return {{"type", "object"},
              {"additionalProperties",
               json::object{{"type", "string"}, {"pattern", kDurationPattern}}}};
    case Kind::Ship: {
      const json::object patterns{
          {"type", "array"}, {"items", type("string")}, {"minItems", 1}, {"maxItems", 1000}};
      return one_of(
          {type("boolean"), patterns, closed({{"files", patterns}, {"max", size_type()}})});
    }
    case Kind::Shuffle:
      return one_of(
          {type("boolean"), closed({{"seed", whole(0, std::numeric_limits<std::int64_t>::max())},
                                    {"mode", enumeration(kShuffleModes)},
                                    {"window", size_type()}})});
    case Kind::Filter:
      return text_type();
    case Kind::Sides:
      return sides_schema(field.min, field.max);
    case Kind::Maps:
      return maps_schema(field);
    case Kind::Mix:
      return {{"type", "object"},
              {"minProperties", 1},
              {"maxProperties", field.max},
              {"additionalProperties", {{"type", "number"}, {"exclusiveMinimum", 0}}}};
    case Kind::Preprocessors:
      return preprocessors_schema(field);
    case Kind::OnError:
      return on_error_schema(field);
    case Kind::Roles:
      return roles_schema(field);
    case Kind::Labels: {
      return one_of({selector_schema(), json::object{{"type", "array"},
                                                     {"maxItems", kSelectorsMax},
                                                     {"items", selector_schema()}}});
    }
    case Kind::Gpus:
      return list_of(one_of({whole(0, 9999), text_type()}));
    case Kind::Umask:
      return one_of(
          {json::object{{"type", "string"}, {"pattern", "^0?0[0-7][0-7]$"}}, whole(0, 77)});
    case Kind::Limits:
      return limits_schema();
    case Kind::Sweep:
      return spec::sweep_schema();
  }
  return {};
}

/// Return the field's value in an empty JobSpec; null if the default is computed or there is none.
json::value default_of(const Field& field) {
  static_assert(std::is_default_constructible_v<JobSpec>);
  if (!field.default_words.empty()) return nullptr;
  JobSpec job;
  DatasetSpec dataset;
  return spec::spec_value(field, {&job, &dataset}, spec::Escape::None);
}

json::object field_schema(const Field& field) {
  json::object schema = kind_schema(field);
  std::string what(field.what);
  if (!field.default_words.empty()) what += fmt::format(" Default: {}.", field.default_words);
  if (spec::is_interpolated(field.kind))
    what += " train-run replaces ${NAME} and ${NAME:-default}.";
  schema["description"] = what;
  if (json::value value = default_of(field); !value.is_null()) schema["default"] = std::move(value);
  if (!field.example.empty()) schema["examples"] = json::array{json::parse(field.example)};
  return schema;
}

json::object section_schema(std::string_view section) {
  json::object properties;
  for (const Field* field : spec::fields_below(section))
    properties[key_of(*field)] = field_schema(*field);
  return closed(std::move(properties));
}

/// Allow null, because a key without a value ("name:") keeps its default. So null is allowed
/// everywhere except inside free values.
void allow_null(json::object& schema) {
  if (auto* properties = schema.if_contains("properties")) {
    for (auto& [key, value] : properties->as_object()) {
      json::object& property = value.as_object();
      allow_null(property);
      json::object outer;
      for (const char* word : {"description", "default", "examples"}) {
        if (auto* text = property.if_contains(word)) outer[word] = *text;
        property.erase(word);
      }
      outer["anyOf"] = json::array{property, type("null")};
      value = std::move(outer);
    }
  }
  if (auto* below = schema.if_contains("additionalProperties");
      below != nullptr && below->is_object() && below->as_object().contains("properties")) {
    allow_null(below->as_object());
  }
}

/// Print indented JSON: people read it and its diffs.
void print(const json::value& value, int indent, std::string& out) {
  const auto begin = [&](bool first) {
    out += fmt::format("{}\n{:{}}", first ? "" : ",", "", indent + 2);
  };
  bool first = true;
  if (value.is_object() && !value.as_object().empty()) {
    out += '{';
    for (const auto& [key, item] : value.as_object()) {
      begin(first);
      first = false;
      out += json::serialize(json::string(key)) + ": ";
      print(item, indent + 2, out);
    }
    out += fmt::format("\n{:{}}}}", "", indent);
  } else if (value.is_array() && !value.as_array().empty() && value.as_array()[0].is_object()) {
    out += '[';
    for (const json::value& item : value.as_array()) {
      begin(first);
      first = false;
      print(item, indent + 2, out);
    }
    out += fmt::format("\n{:{}}]", "", indent);
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string job_spec_schema_json() {
  json::object body = section_schema("");
  allow_null(body);
  json::object schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                      {"$id", "urn:trainrun:job-spec:1"},
                      {"title", "trainrun job"},
                      {"description", "The run spec of train-run (job.yaml)."}};
  for (auto& [key, value] : body) schema[key] = std::move(value);
  schema["patternProperties"] = json::object{
      {"^x-",
       json::object{{"description", "For your own use, such as anchors; train-run ignores it."}}}};
  // A spec that extends another may leave the command to that one, or has it in its first role.
  schema["anyOf"] =
      json::array{json::object{{"required", {"command"}}}, json::object{{"required", {"extends"}}},
                  json::object{{"required", {"roles"}}}};
  std::string text;
  print(schema, 0, text);
  return text + "\n";
}

}  // namespace train
