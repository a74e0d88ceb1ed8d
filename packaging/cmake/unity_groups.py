"""unity_groups.py LINES SOURCE...: choose which sources of a target one translation unit can include together.

Print the group of each source, as a list for CMake. Sources of a group have no more than LINES lines in all (a longer source is
alone), and no local name of one (a helper, a constant or a fixture in an unnamed namespace) is a word of another, which may mean
its own or one of a header: a name is local to its file only while that file is compiled alone.
"""
import pathlib
import re
import sys

# The first name that a line at the left margin declares: what stands before its parameters, value, body, bases or end.
DECLARED = re.compile(r"([A-Za-z_]\w*)(?: final)?\s*(?=[({=;\[]|:(?!:))")
MACRO = re.compile(r"([A-Z][A-Z0-9_]*)\((\w+)")  # MATCHER_P(Name, …), TORCH_MODULE(Name)
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\s*[={\[;]")  # local without an unnamed namespace, too
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
        if line.startswith(("const ", "constexpr ", "static ")):
            names.update((name, path) for name in CONSTANT.findall(line))
    return names


def words(path):
    """Return the words of a file that are not the name of a member or of another namespace."""
    return set(re.findall(r"(?<![\w.>:])[A-Za-z_]\w*", open(path, encoding="utf-8").read()))


def names_of_headers(path):
    """Return the names of types and constants in the project's headers that a source includes."""
    root = pathlib.Path(__file__).parents[2]
    included = re.findall(r'^#include "([^"]+)"', open(path, encoding="utf-8").read(), re.MULTILINE)
    found = set().union(*(words(root / name) for name in included if (root / name).is_file()))
    return {word for word in found if re.match("k?[A-Z]", word)}


class Source:
    def __init__(self, path):
        self.lines = sum(1 for _ in open(path, encoding="utf-8"))
        self.names = declarations(path)
        self.words = words(path) | names_of_headers(path)

    def fits(self, other):
        shared = [name for name in self.names if name in other.words] + [name for name in other.names if name in self.words]
        return all(self.names.get(name) == other.names.get(name) for name in shared)


def main():
    lines_max = int(sys.argv[1])
    groups = []
    chosen = []
    for source in map(Source, sys.argv[2:]):
        for index, group in enumerate(groups):
            if sum(other.lines for other in group) + source.lines <= lines_max and all(map(source.fits, group)):
                break
        else:
            index = len(groups)
            groups.append([])
        groups[index].append(source)
        chosen.append(str(index))
    print(";".join(chosen), end="")


main()
