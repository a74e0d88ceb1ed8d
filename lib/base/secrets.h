// What must not be shown: a process learns which values are secret (of its environment, of a job's
// spec), and whatever it writes for people to read goes through redacted(). The workers' own output
// does not: it is the user's. Any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace train {

/// Whether the name of a variable or key says that it holds a secret: HF_TOKEN, db_password,
/// DATABASE_URL. By whole words; TOKEN_FILE names a file.
bool names_a_secret(std::string_view name);
/// The same, where hiding too much does no harm: KEY, AUTH and CREDENTIALS too.
bool may_name_a_secret(std::string_view name);

/// "<redacted:NAME>"
std::string redacted_mark(std::string_view name);

/// From now on the value, and each long line of it, is hidden. Values that are too short to be told
/// from other text, and absolute paths, are not.
void learn_secret(std::string_view name, std::string_view value);
/// Those whose names may name a secret, and passwords in URLs.
void learn_secrets(const std::map<std::string, std::string>& environment);
/// The same of this process's own environment.
void learn_own_secrets();

/// The text with learned values, passwords in URLs, and what follows "password=" or "token": " as
/// "<redacted:NAME>".
std::string redacted(std::string_view text);

}  // namespace train
