// A library that daemon_code_test looks for.
int digest_library() { return 0; }
