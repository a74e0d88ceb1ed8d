// Reads run_config.notify: a list of rules, each for a command or a webhook.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/spec/kind_readers.h"
#include "launcher/spec/secrets.h"
#include "launcher/spec/section_reader.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

constexpr std::array<std::string_view, 3> kKeys{"on", "command", "webhook"};

void read_events(const Cursor& cursor, const Field& field, std::vector<std::string>& events) {
  Field words = field;
  words.kind = Kind::ChoiceList;
  read_list(cursor, words, events);
  if (cursor.node().is(Node::Kind::Sequence) && cursor.node().items.empty())
    cursor.error("is empty", "name an event, or remove the key");
}

void read_webhook(Reading& reading, const Cursor& cursor, std::string& webhook) {
  auto text = read_interpolated(reading, cursor);
  if (!text) return;
  read_reference(reading, cursor, *text);
  if (!secret_reference(*text) && !is_web_url(*text))
    return cursor.error("is not an http:// or https:// URL",
                        "write the URL, or env:NAME or file:PATH if it is secret");
  webhook = std::move(*text);
}

void read_rule(Reading& reading, const Cursor& cursor, const Field& field, NotifyRule& rule) {
  bool has_command = false, has_webhook = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) == kKeys.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    if (entry.value.is_null()) continue;
    if (entry.key == "on") {
      read_events(entry.value, field, rule.on);
    } else if (entry.key == "command") {
      has_command = true;
      read_argv(reading, entry.value, "[./tell.sh, --now]", rule.command);
    } else {
      has_webhook = true;
      read_webhook(reading, entry.value, rule.webhook);
    }
  }
  if (!has_command && !has_webhook)
    cursor.error("has no command and no webhook", "write one of them");
  if (has_command && has_webhook)
    cursor.error("has a command and a webhook", "write them as two items of the list");
}

}  // namespace

void read_notify(Reading& reading, const Cursor& cursor, const Field& field,
                 std::vector<NotifyRule>& rules) {
  rules.clear();
  const std::vector<Cursor> items = cursor.items();
  if (std::cmp_greater(items.size(), field.max))
    return cursor.error(fmt::format("has {} items, and may have {}", items.size(), field.max),
                        "let one command tell several people");
  for (const Cursor& item : items) {
    if (!item.node().is(Node::Kind::Map)) {
      item.error(fmt::format("is {}, not a mapping", yaml::describe(item.node().kind)),
                 "write {on: [failed], command: [./tell.sh]}, or {webhook: URL}");
      continue;
    }
    read_rule(reading, item, field, rules.emplace_back());
  }
}

}  // namespace train::spec
