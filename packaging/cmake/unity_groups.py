"""unity_groups.py LINES SOURCE...: choose which sources of a target one translation unit can include together.

Print the group of each source, as a list for CMake. Sources of a group have no more than LINES lines in all (a longer source is
alone), and no two of them give different meanings to one name: a helper `wrong()`, a constant `kLineBytesMax` or a fixture in an
unnamed namespace is local to its file only while that file is compiled alone.
"""
import re
import sys

# The first name that a line at the left margin declares: what stands before its parameters, value, body, bases or end.
DECLARED = re.compile(r"([A-Za-z_]\w*)\s*(?=[({=;\[]|:(?!:))")
MACRO = re.compile(r"([A-Z][A-Z0-9_]*)\((\w+)")  # MATCHER_P(Name, …), TORCH_MODULE(Name)
ALIAS = re.compile(r"using |namespace \w+ =|#define ")  # the same line twice does no harm


def declarations(path):
    """Return the local names of a source; those of aliases with the line that says what they mean."""
    names = {}
    local = False
    for line in open(path, encoding="utf-8"):
        line = line.rstrip()
        if line.startswith("namespace {"):
            local = True
        elif line.startswith("}  // namespace") and not line[15:].strip():
            local = False
        elif line.startswith("#define "):
            names[re.split(r"\W", line[8:])[0]] = line
        elif (local or line.startswith("static ")) and line[:1] not in ("", " ", "#", "/", "}"):
            macro = MACRO.match(line)
            found = DECLARED.search(line)
            if macro:
                if not macro[1].startswith("TEST"):
                    names[macro[2]] = path
            elif found:
                names[found[1]] = line if ALIAS.match(line) else path
    return names


def main():
    lines_max = int(sys.argv[1])
    groups = []  # of [lines, names]
    chosen = []
    for path in sys.argv[2:]:
        lines = sum(1 for _ in open(path, encoding="utf-8"))
        names = declarations(path)
        for index, (held, others) in enumerate(groups):
            if held + lines <= lines_max and all(others.get(n, meaning) == meaning for n, meaning in names.items()):
                break
        else:
            index = len(groups)
            groups.append([0, {}])
        groups[index][0] += lines
        groups[index][1].update(names)
        chosen.append(str(index))
    print(";".join(chosen), end="")


main()
