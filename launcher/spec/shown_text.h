// Shows the text of a spec, as its user wrote it, without the secrets in it.
#pragma once

#include <optional>
#include <string>

namespace train::spec {

/// Return the text with a mark in place of each value below a key whose name may name a secret, and
/// of what redacted() (lib/base/secrets.h) hides. Comments that assign to such a name lose the
/// rest of their line. From now on, redacted() hides the secrets that the text spells out. The
/// result is for people: it may not be YAML any more. Return nothing if the text is no YAML,
/// because its secrets cannot be told then.
std::optional<std::string> shown_text(const std::string& yaml);

}  // namespace train::spec
