"""mutant_places.py: find places of C++ text where a small fault can be made, and write text that holds many faults at once

In the text that render() returns, `trainrun_mutant(N)` chooses fault N at run time, so that one build has all of them ("mutant schemata",
Untch, Offutt and Harrold, ISSTA 1993). We read tokens, not C++, and rely on clang-format: it puts blanks around each operator with two
operands, and none around the brackets of a template. What does not compile (an integer of a type, a text minus a text), mutants.py drops.
"""
from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

# Numbers first: they may hold a ' that begins no character.
OPAQUE = re.compile(r"""(?<![\w])\d[\w'.]*|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*(?:.|\n)*?\*/|^[ \t]*\#(?:\\\n|[^\n])*""",
                    re.MULTILINE)
PRECEDENCE = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<=>": 8, "<<": 9, ">>": 9,
              "+": 10, "-": 10, "*": 11, "/": 11, "%": 11} | dict.fromkeys(
                  ["=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "?", ":", "->"], 0)
OPERATOR = re.compile(r"(?<=\s)(" + "|".join(re.escape(operator) for operator in sorted(PRECEDENCE, key=len, reverse=True)) + r")(?=\s)")
INSTEAD = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+"}
KEYWORD = re.compile(r"\b(return|co_return|co_yield|throw|else|do|case)\b")
CLOSING = {")": "(", "]": "[", "}": "{"}
INTEGER = re.compile(r"(?<![\w.'])(\d[\d']*)([uUlL]*)(?![\w.'])")
PREFIX = re.compile(r"(?:else|do|case\b[^:\n]*:|default:)\s+|(?:if|for|while)(?: constexpr)? \(")
ACTION = re.compile(r"(?:\*|\+\+|--)?[a-z_:][\w:.>*()\[\]{}-]*?(?:\+\+|--)?(?: (?:[-+*/%|&^]|<<|>>)?=\s.*)?;\Z", re.DOTALL)
EMPTY = r"(?:\{\}|(?:std::)?\w*\{\}|std::nullopt|nullptr|false|0u?|std::string\(\));"  # what `return {};` would return, too
FIXED = re.compile(r"\b(constexpr|static_assert|template|enum|using|typedef|friend|concept|requires|noexcept\()")


@dataclass(frozen=True)
class Place:
    """A fault: what the text from `begin` to `end` becomes. Numbers in `parts` are the bounds of text that stays; N is the fault's number."""
    begin: int
    end: int
    kind: str
    parts: tuple[str | tuple[int, int], ...]  # with `{N}`
    fault: str  # how the faulty text reads


def code_of(text: str) -> str:
    """Return the text with texts, comments and lines of the preprocessor blanked out; every position stays."""
    def blank(match):
        found = match[0]
        if found[0].isdigit():
            return found
        filler = " " if found.lstrip()[:1] in "#/" else "_"
        return "".join("\n" if c == "\n" else filler for c in found)
    return OPAQUE.sub(blank, text)


class Finder:
    def __init__(self, text: str):
        self.text = text
        self.code = code_of(text)
        self.partner: dict[int, int] = {}  # of each bracket
        self.around: list[tuple[int, int]] = [(-1, -1)]  # (where it begins to hold, the innermost open bracket)
        opened: list[int] = []
        for at, c in enumerate(self.code):
            if c in "([{":
                opened.append(at)
            elif c in CLOSING and opened and self.code[opened[-1]] == CLOSING[c]:
                self.partner[at] = opened.pop()
                self.partner[self.partner[at]] = at
            else:
                continue
            self.around.append((at + (c in "([{"), opened[-1] if opened else -1))
        self.operators = [(m.start(), m.end(), PRECEDENCE[m[1]]) for m in OPERATOR.finditer(self.code)]
        self.by_end = {end: (begin, level) for begin, end, level in self.operators}
        self.by_begin = {begin: (end, level) for begin, end, level in self.operators}
        self.keyword_ends = {m.end() for m in KEYWORD.finditer(self.code)}

    def find(self) -> list[Place]:
        found = [*self.statements(), *self.conditions(), *self.with_two_operands(), *self.literals()]
        return sorted((place for place in found if not self.is_fixed(place)), key=lambda place: (place.begin, -place.end, place.kind))

    def bracket_around(self, at: int) -> int:
        return self.around[bisect.bisect_right(self.around, (at, len(self.code))) - 1][1]

    def is_fixed(self, place: Place) -> bool:
        """Return whether the compiler must know a value here."""
        return bool(FIXED.search(self.code[self.statement_begin(place.begin):place.begin + 1]))

    def statement_begin(self, at: int) -> int:
        """Return where the text after the last `;`, `{` or end of a block begins."""
        while at > 0:
            c = self.code[at - 1]
            if c in ";{([":
                break
            if c == "}" and re.match(r"\s+[\w*+~-]", self.code[at:]):
                break
            at = self.partner.get(at - 1, at - 1) if c in CLOSING else at - 1
        while at < len(self.code) and self.code[at].isspace():
            at += 1
        return at

    def statements(self):
        for match in re.finditer(";", self.code):
            end = match.end()
            bracket = self.bracket_around(match.start())
            if bracket < 0 or self.code[bracket] != "{":
                continue
            begin = self.statement_begin(match.start())
            while prefix := PREFIX.match(self.code, begin, end):
                begin = prefix.end()
                if prefix[0][-1] == "(":
                    begin = self.partner.get(begin - 1, end - 1) + 1
                while begin < end and self.code[begin].isspace():
                    begin += 1
            statement = self.code[begin:end]
            if returned := re.match(r"(?:co_)?return\s+(?!" + EMPTY + ")", statement):
                word = returned[0].split()[0]
                yield Place(begin, end, "return", ("{{ if (trainrun_mutant({N})) " + word + " {{}}; ", (begin, end), " }}"), word + " {};")
            elif statement in ("break;", "continue;"):
                yield Place(begin, end, "removed", ("{{ if (!trainrun_mutant({N})) ", (begin, end), " }}"), ";")
            elif ACTION.match(statement) and re.search(r"[(=]|\+\+|--", statement) and not KEYWORD.match(statement):
                yield Place(begin, end, "removed", ("{{ if (!trainrun_mutant({N})) {{ ", (begin, end), " }} }}"), ";")

    def conditions(self):
        for match in re.finditer(r"\b(?:if|while) \(", self.code):
            begin, end = match.end(), self.partner.get(match.end() - 1, match.end())
            inside = self.code[begin:end]
            if ";" in inside:
                begin += inside.rindex(";") + 2
            condition = self.code[begin:end]
            if condition and not re.search(r"co_await|[{]| = ", condition):
                yield Place(begin, end, "negated", ("trainrun_mutant({N}) != static_cast<bool>(", (begin, end), ")"),
                            f"!({self.text[begin:end]})")

    def with_two_operands(self):
        for begin, end, level in self.operators:
            operator = self.code[begin:end]
            if operator not in INSTEAD:
                continue
            left, right = self.left_of(begin, level), self.right_of(end, level)
            operands = self.code[left:begin] + self.code[end:right]
            if not self.code[left:begin].strip() or not self.code[end:right].strip() or re.search(r"[{]|co_await", operands):
                continue
            other = INSTEAD[operator]
            yield Place(left, right, operator, ("(trainrun_mutant({N}) ? ", (left, begin), other, (end, right), " : ", (left, right), ")"),
                        self.text[left:begin] + other + self.text[end:right])

    def left_of(self, at: int, level: int) -> int:
        while at > 0:
            if at in self.keyword_ends or self.code[at - 1] in ",;([{" or self.by_end.get(at, (0, level))[1] < level:
                break
            if self.code[at - 1] == "}" and re.match(r"\s+[\w*+~(]", self.code[at:]):
                break
            at = self.partner.get(at - 1, at - 1) if self.code[at - 1] in CLOSING else at - 1
        while self.code[at].isspace():
            at += 1
        return at

    def right_of(self, at: int, level: int) -> int:
        while at < len(self.code):
            if self.code[at] in ",;)]}" or self.by_begin.get(at, (0, level + 1))[1] <= level:
                break
            at = self.partner.get(at, at) + 1 if self.code[at] in "([{" else at + 1
        while self.code[at - 1].isspace():
            at -= 1
        return at

    def literals(self):
        for match in INTEGER.finditer(self.code):
            if self.code[max(0, match.start() - 1)] not in "<[":  # a template's argument, the size of an array
                yield Place(match.start(), match.end(), "number", ("(trainrun_mutant({N}) ? ", match.span(), " + 1 : ", match.span(), ")"),
                            f"{match[0]} + 1")
        for match in re.finditer(r"\b(true|false)\b", self.code):
            other = "false" if match[0] == "true" else "true"
            yield Place(*match.span(), match[0], ("(trainrun_mutant({N}) ? " + other + " : " + match[0] + ")",), other)


def find_places(text: str) -> list[Place]:
    return Finder(text).find()


def nested(places: dict[int, Place]) -> dict[int, Place]:
    """Return the faults without those that cross an earlier one: of two, one must hold the other, in a part that stays."""
    def agrees(one: Place, two: Place) -> bool:
        outer, inner = (one, two) if (one.begin, -one.end) <= (two.begin, -two.end) else (two, one)
        if inner.begin >= outer.end:
            return True
        kept = [part for part in outer.parts if not isinstance(part, str)]
        return any(begin <= inner.begin and inner.end <= end for begin, end in kept)
    taken: dict[int, Place] = {}
    for number, place in places.items():
        if all(agrees(place, other) for other in taken.values()):
            taken[number] = place
    return taken


def render(text: str, places: dict[int, Place]) -> str:
    """Return the text with all these faults (of nested()), each behind its number."""
    order = sorted(places, key=lambda number: (places[number].begin, -places[number].end))

    def rendered(begin: int, end: int, numbers: list[int]) -> str:
        out, at = [], begin
        while numbers:
            number, numbers = numbers[0], numbers[1:]
            place = places[number]
            if place.begin < at or place.end > end:
                continue
            out.append(text[at:place.begin])
            inner = [other for other in numbers if places[other].end <= place.end]
            for part in place.parts:
                if isinstance(part, str):
                    out.append(part.replace("{N}", str(number)).replace("{{", "{").replace("}}", "}"))
                else:
                    out.append(rendered(*part, [other for other in inner if places[other].begin >= part[0] and places[other].end <= part[1]]))
            at = place.end
        out.append(text[at:end])
        return "".join(out)
    return rendered(0, len(text), order)
