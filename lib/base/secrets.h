// This file keeps secrets out of what people read. A process learns which values are secret (from
// its environment and from a job's spec), and passes everything that it writes for people through
// redacted(). It does not redact the workers' own output, which belongs to the user. Any thread may
// call.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace train {

/// Return whether the name of a variable or key indicates a secret: HF_TOKEN, db_password,
/// DATABASE_URL. Compares whole words; TOKEN_FILE names a file.
bool names_a_secret(std::string_view name);
/// Do the same for places where hiding too much does no harm: KEY, AUTH and CREDENTIALS also count.
bool may_name_a_secret(std::string_view name);

/// Return "<redacted:NAME>".
std::string redacted_mark(std::string_view name);

/// Hide the value, and each long line of it, from now on. Does not hide an absolute path (unless
/// names_a_secret(name)), or a value that is too short to tell from other text.
void learn_secret(std::string_view name, std::string_view value);
/// Learn the values of all variables whose names may name a secret, and passwords in URLs.
void learn_secrets(const std::map<std::string, std::string>& environment);
/// Do the same for this process's own environment.
void learn_own_secrets();

/// Return the text with "<redacted:NAME>" in place of learned values, of passwords in URLs, and of
/// the values after names like password= or "token":.
std::string redacted(std::string_view text);

}  // namespace train
