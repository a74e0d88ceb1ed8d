// This file keeps secrets out of what people read. A process learns which values are secret (from
// its environment and from a job's spec), and passes all that it writes for people through
// redacted(). The workers' own output is the user's and is not redacted. Any thread may call.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace train {

/// Return whether the name of a variable or key says that it holds a secret: HF_TOKEN, db_password,
/// DATABASE_URL. Compares whole words; TOKEN_FILE names a file.
bool names_a_secret(std::string_view name);
/// Return the same for places where hiding too much does no harm: KEY, AUTH and CREDENTIALS count
/// too.
bool may_name_a_secret(std::string_view name);

/// Return "<redacted:NAME>".
std::string redacted_mark(std::string_view name);

/// Hide the value, and each long line of it, from now on. Absolute paths, and values too short to
/// be told from other text, are not hidden.
void learn_secret(std::string_view name, std::string_view value);
/// Learn the values of all variables whose names may name a secret, and passwords in URLs.
void learn_secrets(const std::map<std::string, std::string>& environment);
/// Do the same for this process's own environment.
void learn_own_secrets();

/// Return the text with "<redacted:NAME>" in place of learned values, passwords in URLs, and what
/// follows "password=" or "token": ".
std::string redacted(std::string_view text);

}  // namespace train
